package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/backend/engine"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/router"
	"signalbox/internal/config"
)

func TestAModelGetsThePromptLimitThatWorksForIt(t *testing.T) {
	small := models.Model{Size: 90e6, ContextLength: 8192, CacheBytes: 23040}
	large := models.Model{Size: 5e9, ContextLength: 131072, CacheBytes: 131072}
	for name, c := range map[string]struct {
		setting int
		model   models.Model
		failed  int
		free    int64
		want    int
	}{
		"what the settings say":               {1024, small, 0, 8e9, 1024},
		"more where they say so":              {4096, small, 0, 8e9, 4096},
		"no more than the model was made for": {4096, models.Model{ContextLength: 2048}, 0, 8e9, 2047},
		"half of what did not load":           {1024, small, 1024, 8e9, 512},
		"half of that":                        {1024, small, 512, 8e9, 256},
		"less than failed is as it is":        {512, small, 1024, 8e9, 512},
		"a failure of the least stays":        {256, small, 256, 8e9, 256},
		"less where memory is short":          {4096, large, 0, 5.6e9, 2048},
		"never too little":                    {1024, large, 0, 5.001e9, 256},
		"unknown memory":                      {4096, large, 0, 0, 4096},
		"unknown cache":                       {4096, models.Model{Size: 5e9}, 0, 5.1e9, 4096},
		"memory that the weights do not fit":  {1024, large, 0, 2e9, 1024}, // another rule says so
	} {
		assert.Equal(t, c.want, chooseLimit(c.setting, 128, c.model, c.failed, c.free), name)
	}
}

func TestAPromptLimitThatDidNotLoadIsHalvedAndTold(t *testing.T) {
	asked(t, time.Hour)
	home := t.TempDir()
	b, stop := start(t, home)
	model, err := b.library.Find(starter)
	require.NoError(t, err)
	npu := llm.Device{Class: llm.NPU, Runtime: "NPU"}
	limit := func(b *Backend) int { return b.knowledge.npuLimit(nil, npu, model) }
	require.Equal(t, 1024, limit(b))
	load := func() llm.LoadRequest { return llm.LoadRequest{Model: model.Ref(), PromptLimit: limit(b)} }

	refused := llm.Errorf(llm.CodeEngine, "load %s on NPU: ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", starter)
	eng := b.engine.current()
	b.knowledge.settled(eng, npu, load(), false, refused)
	assert.Equal(t, 512, limit(b))
	facts := router.Facts{Devices: []router.DeviceFacts{{Device: npu, ContextLimit: 8192, Assumed: true}}, Request: router.Request{PromptTokens: 600}}
	b.knowledge.advise(&facts, model, "curl")
	assert.Empty(t, facts.Devices[0].Quarantined, "it is tried with less")
	_, err = router.Decide(facts)
	assert.ErrorContains(t, err, "600 tokens > 512 maximum")

	crashed := &llm.Error{Code: llm.CodeEngine, Message: "load crashed", Cause: &engine.Exit{Phase: "load", Fault: true}}
	b.knowledge.settled(eng, npu, load(), false, crashed)
	assert.Equal(t, 256, limit(b), "a crash in the load counts too")
	later := &llm.Error{Code: llm.CodeEngine, Message: "decode crashed", Cause: &engine.Exit{Phase: "decode", Fault: true}}
	b.knowledge.settled(eng, npu, load(), true, later)
	assert.Equal(t, 256, limit(b))
	b.knowledge.settled(eng, npu, load(), false, errors.Join(refused))
	b.knowledge.advise(&facts, model, "curl")
	assert.Contains(t, facts.Devices[0].Quarantined, "it did not load at", "nothing less is worth a try")

	stop()
	b, _ = start(t, home, func(s *config.Settings) { s.NPUPrompt = 2048 })
	assert.Equal(t, 256, limit(b), "it is known at the next start, whatever the settings ask for")
}

func TestThePromptLimitStaysWhileTheModelIsLoaded(t *testing.T) {
	asked(t, time.Hour)
	b, _ := start(t, t.TempDir())
	model := models.Model{Name: "large", Size: 5e9, ContextLength: 131072, CacheBytes: 131072, Digest: "1"}
	npu := llm.Device{Class: llm.NPU, Runtime: "NPU"}
	free := int64(8e9)
	b.knowledge.memory, b.knowledge.looked = func() int64 { return free }, time.Time{}
	require.Equal(t, 1024, b.knowledge.npuLimit(nil, npu, model))
	free, b.knowledge.looked = 5.1e9, time.Time{} // the model itself took it
	loaded := []engine.State{{Device: npu, Loaded: []engine.LoadedModel{{Model: model.Ref()}}}}
	b.knowledge.npu.decided["npu:0 large"] = npuLimit{model.Ref().Digest, 1024, 1024, time.Time{}}
	assert.Equal(t, 1024, b.knowledge.npuLimit(loaded, npu, model))
	assert.Equal(t, 256, b.knowledge.npuLimit(nil, npu, model), "decided anew when it is gone")
}
