package hub

// ProxyBy is for tests that stand in for the system's settings.
var ProxyBy = proxyBy
