package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// clients measures what clients ask for beside plain answers: answers held to a schema, and sixty at once.
func clients(ours *signalbox) ([]figure, error) {
	speed, err := constrained(ours)
	if err != nil {
		return nil, err
	}
	sixty, err := sixtyStreams()
	return []figure{speed, sixty}, err
}

// constrained compares the time of a token of an answer that a schema holds with that of a free one, in turns.
func constrained(ours *signalbox) (figure, error) {
	list := map[string]any{"type": "array", "minItems": 40, "items": map[string]any{"type": "object", "required": []string{"name", "age"}, "properties": map[string]any{
		"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer", "minimum": 0, "maximum": 120},
	}}}
	perToken := func(format any) (float64, error) {
		body := map[string]any{
			"model": "smollm2:135m", "prompt": "Write about the people in this story as JSON. " + text(64), "raw": true,
			"options": map[string]any{"temperature": 0, "num_predict": 2 * answer},
		}
		if format != nil {
			body["format"] = format
		}
		_, tokens, first, last, err := ours.stream("/api/generate", body)
		if err != nil {
			return 0, err
		}
		if tokens < answer/2 {
			return 0, errShort
		}
		return last.Sub(first).Seconds() * 1000 / float64(tokens-1), nil
	}
	if _, err := perToken(list); err != nil { // the grammar is compiled once for all that follow
		return figure{}, err
	}
	var free, held, ratios []float64
	for range 2 * *rounds {
		f, err := perToken(nil)
		if err == errShort {
			continue
		}
		if err != nil {
			return figure{}, err
		}
		h, err := perToken(list)
		if err != nil {
			return figure{}, err
		}
		free, held, ratios = append(free, f), append(held, h), append(ratios, f/h)
	}
	if len(ratios) == 0 {
		return figure{}, errShort
	}
	return figure{
		Name: "decode held to a schema, x free", Value: median(ratios), Goal: ">= 0.9", Met: median(ratios) >= 0.9,
		Details: map[string]any{"free_ms_a_token": median(free), "held_ms_a_token": median(held)},
	}, nil
}

// sixtyStreams counts what sixty streams at once lose of what the engine said. The fake engine says what it is told to.
func sixtyStreams() (figure, error) {
	fake, err := start("--engine", "fake")
	if err != nil {
		return figure{}, err
	}
	defer fake.stop()
	const streams = 60
	var lost, pieces atomic.Int64
	var first atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for i := range streams {
		said := fmt.Sprintf("Stream %d: %s", i, text(500))
		all.Go(func() {
			done, tokens, _, _, err := fake.stream("/api/chat", map[string]any{
				"model": "smollm2:135m", "messages": []any{map[string]any{"role": "user", "content": "[[say " + said + "]]"}},
			})
			if err != nil {
				first.CompareAndSwap(nil, &err)
			}
			if err != nil || done.text != said {
				lost.Add(1)
			}
			pieces.Add(int64(tokens))
		})
	}
	all.Wait()
	if err := first.Load(); err != nil {
		fmt.Println("a stream failed:", *err)
	}
	return figure{
		Name: "60 streams at once, lost", Value: float64(lost.Load()), Goal: "0", Met: lost.Load() == 0,
		Details: map[string]any{"pieces": pieces.Load(), "seconds": time.Since(began).Seconds()},
	}, nil
}
