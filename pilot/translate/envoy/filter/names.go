package filter

// The names that proxies know filters by.
const (
	nameHCM        = "envoy.filters.network.http_connection_manager"
	nameTCPProxy   = "envoy.filters.network.tcp_proxy"
	nameMongo      = "envoy.filters.network.mongo_proxy"
	nameMySQL      = "envoy.filters.network.mysql_proxy"
	nameRedis      = "envoy.filters.network.redis_proxy"
	nameExchange   = "istio.metadata_exchange"
	nameStats      = "istio.stats"
	nameALPN       = "istio.alpn"
	nameGRPCWeb    = "envoy.filters.http.grpc_web"
	nameGRPCStats  = "envoy.filters.http.grpc_stats"
	nameFault      = "envoy.filters.http.fault"
	nameCORS       = "envoy.filters.http.cors"
	nameForward    = "envoy.filters.http.dynamic_forward_proxy"
	nameForwardSNI = "envoy.extensions.filters.network.sni_dynamic_forward_proxy"
	nameSession    = "envoy.filters.http.stateful_session"
	nameRouter     = "envoy.filters.http.router"
	nameFileLog    = "envoy.access_loggers.file"
	nameHTTPLog    = "envoy.access_loggers.http_grpc"
	nameTCPLog     = "envoy.tcp_grpc_access_log"
	nameOTelLog    = "envoy.access_loggers.open_telemetry"
	nameCELFilter  = "envoy.access_loggers.extension_filters.cel"
	nameNoQuery    = "envoy.formatter.req_without_query"
	nameCELFormat  = "envoy.formatter.cel"
	nameCaseFormat = "preserve_case"
)
