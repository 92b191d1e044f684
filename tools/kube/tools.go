// Package tools pins the Kubernetes server that the tests run against.
//
// It is a module of its own, since k8s.io/kubernetes needs a replace for each of its staging modules.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
)
