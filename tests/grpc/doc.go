// Package grpc tests that real gRPC clients and servers without a proxy, those of grpc-go, accept what the control plane
// sends and do what the manifests say: every test makes calls over loopback.
package grpc
