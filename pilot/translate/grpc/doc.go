// Package grpc makes what gRPC clients and servers without a proxy are given (metadata GENERATOR "grpc"): API listeners
// and clusters for clients, and listeners with security for servers. All are asked for by name, and nobody else is given
// any. Routes and endpoints are those of packages route and endpoint.
//
// Inputs: services, destination rules, authentication and authorization policies, through the recording context. Outputs:
// listeners and clusters as grpc's libraries take them. Those refuse a whole resource for a field that they do not know,
// so that nothing is said here that they have no use for. Facts: translation-l4 §7.
package grpc
