package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler serves readiness, metrics and debug output.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", s.serveReady)
	mux.Handle("/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, s.opts.Version) })
	mux.HandleFunc("/debug/syncz", s.serveSyncz)
	mux.HandleFunc("/debug/configz", s.serveConfigz)
	mux.HandleFunc("/debug/endpointz", s.serveEndpointz)
	mux.HandleFunc("/debug/config_dump", s.serveConfigDump)
	mux.HandleFunc("/debug/push_status", s.servePushStatus)
	mux.HandleFunc("/debug/problemz", s.serveProblemz)
	if s.opts.Profile {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !s.Ready() {
		http.Error(w, "not every source has synced", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
