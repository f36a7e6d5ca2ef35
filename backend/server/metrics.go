package server

import (
	"context"
	"net/http"
	"time"

	"signalbox/backend/dispatch"
	"signalbox/backend/llm"
	"signalbox/backend/metrics"
)

// measured is a Dispatcher that counts what ends.
type measured struct {
	Dispatcher
	metrics *metrics.Metrics
}

func (d measured) Generate(ctx context.Context, call dispatch.Call, answer dispatch.Answer) (llm.Record, llm.Stats, error) {
	defer d.metrics.Begin()()
	rec, stats, err := d.Dispatcher.Generate(ctx, call, answer)
	d.ended(call, rec, err)
	return rec, stats, err
}

func (d measured) Embed(ctx context.Context, call dispatch.Call, req llm.EmbedRequest) (llm.Record, llm.Embedded, error) {
	defer d.metrics.Begin()()
	rec, out, err := d.Dispatcher.Embed(ctx, call, req)
	d.ended(call, rec, err)
	return rec, out, err
}

func (d measured) Load(ctx context.Context, call dispatch.Call) (llm.Record, error) {
	defer d.metrics.Begin()()
	rec, err := d.Dispatcher.Load(ctx, call)
	d.ended(call, rec, err)
	return rec, err
}

func (d measured) ended(call dispatch.Call, rec llm.Record, err error) {
	d.metrics.Ended(metrics.Request{
		Route: call.Route, Client: knownClient(call.Client), Took: time.Since(call.Arrived), Record: rec, Err: err,
	})
}

// gauges are the devices as the metrics show them.
func (s *Server) gauges() []metrics.Device {
	var list []metrics.Device
	for _, d := range s.deps.Status().Devices {
		list = append(list, metrics.Device{
			ID: d.ID, Up: d.State != "off" && d.State != "unavailable", Running: d.Running, Queued: d.Queued, Loaded: len(d.Models),
		})
	}
	return list
}

func (s *Server) metricsPublic(w *response, r *http.Request) error {
	s.metrics.Public().ServeHTTP(w, r)
	return nil
}

func (s *Server) metricsWindow(w *response, r *http.Request) error {
	s.metrics.Window().ServeHTTP(w, r)
	return nil
}
