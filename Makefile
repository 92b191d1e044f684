# Every target gets the tools it needs. `make` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
# grpc's traces would link text/template, and with it every method of every type: the binary would be twice its size,
# and resident.
export GOFLAGS := $(strip $(GOFLAGS) -tags=grpcnotrace)
PKG ?= ./...
# The race detector needs a C compiler; go says whether it has found one.
RACE = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
TOOLS := .tools/bin
TEST_TOOLS := $(TOOLS)/envoy $(TOOLS)/etcd $(TOOLS)/kube-apiserver

.PHONY: help build test lint fmt demo bench golden tools proto clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## build bin/mizzen
	$(GO) build -o bin/mizzen ./cmd/mizzen

test: $(TEST_TOOLS) ## run all tests: unit, golden, differential, real Envoy, real API server (PKG=./... RUN=regexp)
	@mkdir -p out
	MIZZEN_TOOLS="$(CURDIR)/$(TOOLS)" MIZZEN_REQUIRE_TOOLS=1 $(GO) test $(RACE) -json -timeout 15m $(if $(RUN),-run '$(RUN)') $(PKG) \
	  | tee out/test.json | $(GO) run ./tools/testsum

lint: $(TOOLS)/golangci-lint ## run the pinned linters
	$(TOOLS)/golangci-lint run ./...

fmt: $(TOOLS)/golangci-lint ## format the code
	$(TOOLS)/golangci-lint fmt ./...

demo: build $(TOOLS)/envoy ## two real Envoys follow a directory of manifests, no cluster, no root (KEEP=1 stays up)
	MIZZEN_TOOLS="$(CURDIR)/$(TOOLS)" $(GO) run ./tests/demo

bench: build $(TEST_TOOLS) ## measure the cost of each kind of change (BENCH='flags')
	MIZZEN_TOOLS="$(CURDIR)/$(TOOLS)" $(GO) run ./tests/bench $(BENCH)

golden: $(TEST_TOOLS) ## rewrite the golden files; look at the diff before you commit
	UPDATE_GOLDEN=1 MIZZEN_TOOLS="$(CURDIR)/$(TOOLS)" $(GO) test -count=1 -timeout 15m $(PKG)

tools: $(TEST_TOOLS) $(TOOLS)/golangci-lint ## get Envoy, etcd, the API server and the linters into .tools/bin

proto: ## write the Go code of the .proto files under pkg/api
	tools/proto/generate.sh

clean: ## remove what was built; the tools in .tools stay
	rm -rf bin out

# A tool's own file is its stamp: get.sh keeps a tool of the pinned version, so only a changed pin costs time.
$(TOOLS)/kube-apiserver: tools/kube/go.mod tools/kube/go.sum
$(TOOLS)/etcd: tools/etcd/go.mod tools/etcd/go.sum
$(TOOLS)/golangci-lint: tools/lint/go.mod tools/lint/go.sum
$(TOOLS)/envoy: tools/envoy/requirements.txt
$(TOOLS)/%: tools/get.sh
	@tools/get.sh $* && touch $@
