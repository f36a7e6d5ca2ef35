package generate

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTextsShareTheDeviceWithAnswers: between two batches an answer has the device for as long as a batch took.
func TestTextsShareTheDeviceWithAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token, batch = 10 * time.Millisecond, 45 * time.Millisecond
		device := newTurn()
		tokens := 0
		answer := func(n int) <-chan struct{} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range n {
					if !assert.NoError(t, device.take(t.Context())) {
						return
					}
					time.Sleep(token)
					tokens++
					device.give()
				}
			}()
			synctest.Wait()
			return done
		}
		answered := answer(20)
		began := time.Now()
		require.NoError(t, device.share(t.Context(), batch))
		assert.Equal(t, 5, tokens, "as many as fit, and the one that was on its way")
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
		require.NoError(t, device.share(t.Context(), time.Hour))
		<-answered
		assert.Equal(t, 20, tokens)
		assert.Less(t, time.Since(began), time.Second, "when nobody wants the device, nobody waits")
	})
}

func TestTextsOfAllLengthsComeInFewShapes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := make([][]int32, 2000)
	for i := range texts {
		texts[i] = make([]int32, 1+random.IntN(256))
	}
	shapes := map[[2]int]bool{}
	seen := map[int]bool{}
	for _, batch := range batches(texts) {
		widest := 0
		for _, at := range batch {
			seen[at] = true
			widest = max(widest, width(texts[at]))
		}
		require.LessOrEqual(t, len(batch)*widest, batchTokens)
		shapes[[2]int{len(batch), widest}] = true
	}
	assert.Len(t, seen, len(texts), "none is lost")
	assert.LessOrEqual(t, len(shapes), 2*256/widthStep, "the runtime keeps what it prepares for each")
}
