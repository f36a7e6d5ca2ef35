// Package metrics counts what happens to requests, for Prometheus.
//
// There are two views. The public one has only labels whose values this program chose: routes, device classes, rules, outcomes.
// The window's own listener adds the models and the clients: which of them somebody uses is nothing for every page and account
// that can reach the public port. No label ever holds what a caller wrote: models are named as they are installed, clients as
// this program knows them, and all else is "other".
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"signalbox/backend/llm"
)

// Device is how a device stands.
type Device struct {
	ID      string // "npu:0"
	Up      bool
	Running int
	Queued  int
	Loaded  int // models
}

// Metrics counts. It is safe for concurrent use.
type Metrics struct {
	public, window *prometheus.Registry

	requests  *prometheus.CounterVec // route, device, outcome
	errors    *prometheus.CounterVec // code
	decisions *prometheus.CounterVec // routed, executed, rule, fallback
	tokens    *prometheus.CounterVec // device, kind
	loads     *prometheus.CounterVec // device
	cancels   *prometheus.CounterVec // device
	active    prometheus.Gauge

	total, ttft, queue, load, prefill, decode, cancel *prometheus.HistogramVec // device, in seconds
	speed                                             *prometheus.HistogramVec // device, tokens per second

	modelRequests  *prometheus.CounterVec // model, device, outcome; window
	modelTokens    *prometheus.CounterVec // model, kind; window
	clientRequests *prometheus.CounterVec // client, route, outcome; window
}

// New returns Metrics that ask devices for how things stand when they are read. devices must not wait for anything.
func New(version string, devices func() []Device) *Metrics {
	m := &Metrics{public: prometheus.NewRegistry(), window: prometheus.NewRegistry()}
	m.requests = counter(m.public, "requests_total", "Requests that have ended, by route, execution device and outcome.", "route", "device", "outcome")
	m.errors = counter(m.public, "errors_total", "Requests that ended with an error, by its code.", "code")
	m.decisions = counter(m.public, "routing_decisions_total",
		"Routing decisions: the device the rules chose, the one that ran, the rule, and why they differ.", "routed", "executed", "rule", "fallback")
	m.tokens = counter(m.public, "tokens_total", "Tokens by device and kind: prompt, cached (of the prompt) and completion.", "device", "kind")
	m.loads = counter(m.public, "loads_total", "Requests that had to load their model.", "device")
	m.cancels = counter(m.public, "cancellations_total", "Requests that were cancelled.", "device")
	m.active = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "requests_active", Help: "Requests that wait or run."})
	m.public.MustRegister(m.active)

	m.total = seconds(m.public, "request_seconds", "From a request's arrival to its end.")
	m.ttft = seconds(m.public, "time_to_first_token_seconds", "From a request's arrival to its first token.")
	m.queue = seconds(m.public, "queue_seconds", "Time in a device's queue.")
	m.load = seconds(m.public, "load_seconds", "Time until a model that was not loaded was ready.")
	m.prefill = seconds(m.public, "prefill_seconds", "Time to read the prompt.")
	m.decode = seconds(m.public, "decode_seconds", "Time from the first token to the last.")
	m.cancel = seconds(m.public, "cancel_seconds", "From the wish to stop until the device was free.")
	m.speed = histogram(m.public, "tokens_per_second", "Speed of decoding.", []float64{1, 2, 5, 10, 20, 40, 60, 80, 120, 200, 400})

	m.modelRequests = counter(m.window, "model_requests_total", "Requests that have ended, by installed model.", "model", "device", "outcome")
	m.modelTokens = counter(m.window, "model_tokens_total", "Tokens by installed model.", "model", "kind")
	m.clientRequests = counter(m.window, "client_requests_total", "Requests that have ended, by known client.", "client", "route", "outcome")

	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", Help: "Always 1."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.public.MustRegister(build, stateOf{devices})
	// These tell of the process and of the machine's network.
	m.window.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

const namespace = "signalbox"

func counter(r *prometheus.Registry, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func seconds(r *prometheus.Registry, name, help string) *prometheus.HistogramVec {
	return histogram(r, name, help, []float64{.005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600})
}

func histogram(r *prometheus.Registry, name, help string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{"device"})
	r.MustRegister(h)
	return h
}

// Request is one that has ended.
type Request struct {
	Route  string // one of the server's
	Client string // a known one
	Took   time.Duration
	Record llm.Record
	Err    error
}

// Begin counts a request as active, until the returned function is called.
func (m *Metrics) Begin() (end func()) {
	m.active.Inc()
	return m.active.Dec
}

// Ended counts a request that has ended.
func (m *Metrics) Ended(r Request) {
	rec := r.Record
	device, outcome := or(rec.ExecutionDevice, "none"), string(rec.Outcome)
	m.requests.WithLabelValues(r.Route, device, outcome).Inc()
	m.clientRequests.WithLabelValues(r.Client, r.Route, outcome).Inc()
	if r.Err != nil {
		m.errors.WithLabelValues(string(llm.CodeOf(r.Err))).Inc()
	}
	if rec.RouteRule != "" {
		m.decisions.WithLabelValues(or(rec.RoutedDevice, "none"), device, rec.RouteRule, or(rec.FallbackReason, "none")).Inc()
	}
	if rec.Outcome == llm.OutcomeCancelled {
		m.cancels.WithLabelValues(device).Inc()
	}
	if rec.LoadMS != nil && *rec.LoadMS > 0 {
		m.loads.WithLabelValues(device).Inc()
		observe(m.load, device, rec.LoadMS)
	}
	m.total.WithLabelValues(device).Observe(r.Took.Seconds())
	observe(m.ttft, device, rec.TTFTMS)
	observe(m.queue, device, rec.QueueMS)
	observe(m.prefill, device, rec.PrefillMS)
	observe(m.decode, device, rec.DecodeMS)
	observe(m.cancel, device, rec.CancelMS)
	if rec.TokensPerSecond != nil {
		m.speed.WithLabelValues(device).Observe(*rec.TokensPerSecond)
	}
	model := or(rec.ModelUsed, "none") // set only when it was found among the installed ones
	m.modelRequests.WithLabelValues(model, device, outcome).Inc()
	for kind, n := range map[string]*int{"prompt": rec.PromptTokens, "cached": rec.CachedTokens, "completion": rec.CompletionTokens} {
		if n != nil {
			m.tokens.WithLabelValues(device, kind).Add(float64(*n))
			m.modelTokens.WithLabelValues(model, kind).Add(float64(*n))
		}
	}
}

func observe(h *prometheus.HistogramVec, device string, ms *float64) {
	if ms != nil {
		h.WithLabelValues(device).Observe(*ms / 1000)
	}
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// Public is the view for the public port.
func (m *Metrics) Public() http.Handler { return handler(m.public) }

// Window is the view for the window's listener: all of it.
func (m *Metrics) Window() http.Handler { return handler(prometheus.Gatherers{m.public, m.window}) }

func handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, DisableCompression: true})
}

// stateOf is the devices as they stand when somebody looks.
type stateOf struct{ devices func() []Device }

var (
	up      = prometheus.NewDesc(namespace+"_device_up", "Whether the device's engine process runs.", []string{"device"}, nil)
	running = prometheus.NewDesc(namespace+"_device_requests_running", "Requests that have a turn on the device.", []string{"device"}, nil)
	queued  = prometheus.NewDesc(namespace+"_device_requests_queued", "Requests that wait for the device.", []string{"device"}, nil)
	loaded  = prometheus.NewDesc(namespace+"_device_models_loaded", "Models loaded on the device.", []string{"device"}, nil)
)

func (s stateOf) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{up, running, queued, loaded} {
		ch <- d
	}
}

func (s stateOf) Collect(ch chan<- prometheus.Metric) {
	for _, d := range s.devices() {
		isUp := 0
		if d.Up {
			isUp = 1
		}
		for desc, n := range map[*prometheus.Desc]int{up: isUp, running: d.Running, queued: d.Queued, loaded: d.Loaded} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), d.ID)
		}
	}
}
