package openvino_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"signalbox/internal/openvino"
	"signalbox/internal/testenv"
)

func core(t *testing.T) (*openvino.Library, *openvino.Core) {
	t.Helper()
	lib, err := openvino.Load(testenv.Runtime(t))
	require.NoError(t, err)
	c, err := lib.NewCore()
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return lib, c
}

func tokenizer(t *testing.T, c *openvino.Core) *openvino.CompiledModel {
	t.Helper()
	require.NoError(t, c.AddTokenizers())
	m, err := c.ReadModel(filepath.Join(testenv.ChatModel(t), "openvino_tokenizer.xml"), "")
	require.NoError(t, err)
	defer m.Close()
	compiled, err := c.Compile(m, "CPU", nil)
	require.NoError(t, err)
	t.Cleanup(compiled.Close)
	return compiled
}

func encode(t *testing.T, lib *openvino.Library, r *openvino.Request, text string) []int64 {
	t.Helper()
	in, err := lib.NewStrings(text)
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, r.SetInput(0, in))
	require.NoError(t, r.Infer())
	out, err := r.Tensor("input_ids")
	require.NoError(t, err)
	defer out.Close()
	ids, err := openvino.Data[int64](out)
	require.NoError(t, err)
	return append([]int64(nil), ids...)
}

func TestLoadTwiceGivesOneLibrary(t *testing.T) {
	lib, _ := core(t)
	again, err := openvino.Load(testenv.Runtime(t))
	require.NoError(t, err)
	assert.Same(t, lib, again)
	assert.True(t, strings.HasPrefix(lib.Version(), "2026."), lib.Version())
}

func TestMissingRuntimeIsOneClearError(t *testing.T) {
	empty := t.TempDir()
	_, err := openvino.Load(empty)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "the native runtime is missing")
	assert.Contains(t, err.Error(), empty)
}

func TestForeignLibraryIsOneClearError(t *testing.T) {
	dir := t.TempDir()
	libs := filepath.Join(dir, "openvino", "libs")
	require.NoError(t, os.MkdirAll(libs, 0o755))
	name := filepath.Join(libs, "libopenvino_c.so.1")
	require.NoError(t, os.WriteFile(name, []byte("no library"), 0o644))
	_, err := openvino.Load(dir)
	require.ErrorContains(t, err, "libopenvino_c.so.1")

	other, err := filepath.Glob(filepath.Join(testenv.Runtime(t), "openvino", "libs", "libtbb.so.*"))
	require.NoError(t, err)
	require.NotEmpty(t, other)
	data, err := os.ReadFile(other[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, data, 0o644))
	_, err = openvino.Load(dir)
	require.ErrorContains(t, err, "not the version this program was built for")
	assert.ErrorContains(t, err, "ov_core_create")
}

func TestDevicesBeginWithTheCPU(t *testing.T) {
	_, c := core(t)
	devices, err := c.Devices()
	require.NoError(t, err)
	require.NotEmpty(t, devices)
	assert.Equal(t, "CPU", devices[0].ID)
	assert.NotEmpty(t, devices[0].Name)
}

func TestTokenizerRunsAndPortsAreNamed(t *testing.T) {
	lib, c := core(t)
	compiled := tokenizer(t, c)
	outputs, err := compiled.Outputs()
	require.NoError(t, err)
	names := []string{}
	for _, p := range outputs {
		names = append(names, p.Name)
		assert.Equal(t, openvino.I64, p.Type)
	}
	assert.ElementsMatch(t, []string{"input_ids", "attention_mask"}, names)
	inputs, err := compiled.Inputs()
	require.NoError(t, err)
	require.Len(t, inputs, 1)
	assert.Equal(t, openvino.String, inputs[0].Type)

	r, err := compiled.NewRequest()
	require.NoError(t, err)
	defer r.Close()
	assert.NotEmpty(t, encode(t, lib, r, "What is the capital of France?"))
}

func TestErrorsKeepTheWholeTextAndShowItsMeaning(t *testing.T) {
	_, c := core(t)
	_, err := c.ReadModel(filepath.Join(t.TempDir(), "nothing.xml"), "")
	require.Error(t, err)
	var failure *openvino.Error
	require.ErrorAs(t, err, &failure)
	assert.NotZero(t, failure.Status)
	assert.Contains(t, failure.Text, "\n")
	assert.NotContains(t, err.Error(), "\n")
	assert.NotContains(t, err.Error(), "Exception from")
	t.Log(err)

	_, err = c.Property("NOSUCH", "FULL_DEVICE_NAME")
	require.Error(t, err)
	t.Log(err)
}

func TestPropertiesArriveAndUnknownOnesAreRefused(t *testing.T) {
	_, c := core(t)
	require.NoError(t, c.SetProperties("CPU", openvino.Properties{"PERFORMANCE_HINT": "LATENCY"}))
	value, err := c.Property("CPU", "PERFORMANCE_HINT")
	require.NoError(t, err)
	assert.Equal(t, "LATENCY", value)

	require.NoError(t, c.AddTokenizers())
	m, err := c.ReadModel(filepath.Join(testenv.ChatModel(t), "openvino_tokenizer.xml"), "")
	require.NoError(t, err)
	defer m.Close()
	compiled, err := c.Compile(m, "CPU", openvino.Properties{"INFERENCE_NUM_THREADS": "1", "PERFORMANCE_HINT": "LATENCY"})
	require.NoError(t, err)
	defer compiled.Close()
	threads, err := compiled.Property("INFERENCE_NUM_THREADS")
	require.NoError(t, err)
	assert.Equal(t, "1", threads)
	_, err = c.Compile(m, "CPU", openvino.Properties{"NO_SUCH_PROPERTY": "1"})
	require.ErrorContains(t, err, "NO_SUCH_PROPERTY")
}

func TestNULIsRefusedEverywhere(t *testing.T) {
	lib, c := core(t)
	_, err := lib.NewStrings("visible\x00hidden")
	assert.ErrorIs(t, err, openvino.ErrNUL)
	_, err = c.Property("CPU\x00", "FULL_DEVICE_NAME")
	assert.ErrorIs(t, err, openvino.ErrNUL)
	_, err = c.ReadModel("a\x00b", "")
	assert.Error(t, err)
	assert.ErrorIs(t, c.SetProperties("CPU", openvino.Properties{"A": "b\x00"}), openvino.ErrNUL)
}

func TestTensorsKnowTheirTypeAndShape(t *testing.T) {
	lib, _ := core(t)
	x, err := openvino.TensorOf(lib, []int64{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	shape, err := x.Shape()
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 3}, shape)
	require.NoError(t, x.Reshape(1, 2))
	data, err := openvino.Data[int64](x)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2}, data, "smaller shapes keep the memory")
	_, err = openvino.Data[float32](x)
	assert.ErrorContains(t, err, "i64")
	_, err = openvino.TensorOf(lib, []int64{1}, 2)
	assert.Error(t, err)
	for _, bad := range [][]int64{{-1}, {1 << 40}, {1 << 30, 1 << 30}} {
		_, err = lib.NewTensor(openvino.I64, bad...)
		assert.Error(t, err, bad)
	}
	empty, err := lib.NewTensor(openvino.F32, 0)
	require.NoError(t, err)
	none, err := openvino.Data[float32](empty)
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestClosedTwiceAndUsedAfterwardsIsAnError(t *testing.T) {
	lib, c := core(t)
	x, err := openvino.TensorOf(lib, []int32{1}, 1)
	require.NoError(t, err)
	x.Close()
	x.Close()
	_, err = x.Shape()
	assert.ErrorIs(t, err, openvino.ErrClosed)
	_, err = openvino.Data[int32](x)
	assert.ErrorIs(t, err, openvino.ErrClosed)

	compiled := tokenizer(t, c)
	r, err := compiled.NewRequest()
	require.NoError(t, err)
	compiled.Close()
	compiled.Close()
	assert.NotEmpty(t, encode(t, lib, r, "a request outlives its model"))
	r.Close()
	r.Close()
	assert.ErrorIs(t, r.Infer(), openvino.ErrClosed)
	c.Close()
	c.Close()
	_, err = c.Devices()
	assert.ErrorIs(t, err, openvino.ErrClosed)
}

func TestModelFromMemory(t *testing.T) {
	lib, c := core(t)
	require.NoError(t, c.AddTokenizers())
	dir := testenv.ChatModel(t)
	xml, err := os.ReadFile(filepath.Join(dir, "openvino_tokenizer.xml"))
	require.NoError(t, err)
	bin, err := os.ReadFile(filepath.Join(dir, "openvino_tokenizer.bin"))
	require.NoError(t, err)
	weights, err := openvino.TensorOf(lib, bin, int64(len(bin)))
	require.NoError(t, err)
	m, err := c.ReadModelXML(xml, weights)
	require.NoError(t, err)
	compiled, err := c.Compile(m, "CPU", nil)
	require.NoError(t, err)
	defer compiled.Close()
	m.Close()
	m.Close()
	r, err := compiled.NewRequest()
	require.NoError(t, err)
	defer r.Close()
	want, err := tokenizer(t, c).NewRequest()
	require.NoError(t, err)
	defer want.Close()
	const text = "Grüße aus Köln 🙂"
	assert.Equal(t, encode(t, lib, want, text), encode(t, lib, r, text))
}

// Out-parameters on a goroutine's stack, and strings that nobody holds, fail only here: many goroutines, growing stacks.
func TestManyGoroutines(t *testing.T) {
	lib, c := core(t)
	compiled := tokenizer(t, c)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r, err := compiled.NewRequest()
			if !assert.NoError(t, err) {
				return
			}
			defer r.Close()
			for i := range 50 {
				deep(i)
				assert.Len(t, encode(t, lib, r, "one two three"), 3)
				value, err := c.Property("CPU", "SUPPORTED_PROPERTIES")
				assert.NoError(t, err)
				assert.Contains(t, value, "PERFORMANCE_HINT")
			}
		})
	}
	all.Wait()
}

func deep(n int) byte {
	var frame [1024]byte
	if n > 0 {
		frame[n] = deep(n - 1)
	}
	return frame[n]
}

// The CPU plugin leaves the loading thread a signal stack that dies with the plugin: without care this ends the process.
func TestSignalsAfterClose(t *testing.T) {
	lib, err := openvino.Load(testenv.Runtime(t))
	require.NoError(t, err)
	for range 10 {
		c, err := lib.NewCore()
		require.NoError(t, err)
		c.Close()
		var spin sync.WaitGroup
		for range 8 {
			spin.Go(func() { // long enough for the scheduler to preempt by signal
				for i, until := 0, time.Now().Add(30*time.Millisecond); time.Now().Before(until); i++ {
				}
			})
		}
		spin.Wait()
	}
}
