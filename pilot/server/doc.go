// Package server puts the control plane together: sources, builder, engine, ADS, HTTP endpoints, their order of start
// and stop, and the table of environment variables.
package server
