#!/usr/bin/env bash
# Writes the Go code of every .proto file under pkg/api. Run it after you changed one: make proto
#
# protoc comes out of the pinned Python wheel, protoc-gen-go in the version of google.golang.org/protobuf in go.mod, both
# into .tools. Needs Go, Python 3 with pip, and no root.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tools/proto
venv=$root/.tools/proto
version=$(cd "$root" && go list -m -f '{{.Version}}' google.golang.org/protobuf)

[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
(cd "$root" && GOBIN=$venv/bin go install "google.golang.org/protobuf/cmd/protoc-gen-go@$version")

cd "$root"
find pkg/api -name '*.proto' | sort | while read -r file; do
  "$venv/bin/python" -m grpc_tools.protoc --plugin=protoc-gen-go="$venv/bin/protoc-gen-go" \
    --proto_path=pkg/api --go_out=pkg/api --go_opt=paths=source_relative "$file"
done
