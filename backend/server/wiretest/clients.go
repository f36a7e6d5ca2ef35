package wiretest

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What follows reads answers as the makers' own clients do, and shares no code with the other tests: streams by the event-stream
// standard or line by line, into types in which each field has the type that those clients have for it.

type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role    *string `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// eventData reads a stream of events as the standard says, and returns the data of each.
func eventData(t *testing.T, stream io.Reader) (all []string) {
	t.Helper()
	var data []string
	scan := bufio.NewScanner(stream)
	for scan.Scan() {
		line := strings.TrimSuffix(scan.Text(), "\r")
		field, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && len(data) > 0:
			all = append(all, strings.Join(data, "\n"))
			data = nil
		case field == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	require.NoError(t, scan.Err())
	require.Empty(t, data, "the last event is not ended")
	return all
}

func (s *suite) openaiClient(t *testing.T) {
	resp := s.post(t, t.Context(), "/v1/chat/completions", s.openaiBody(s.o.Prompt, true, object{"stream_options": object{"include_usage": true}}))
	require.Equal(t, 200, resp.StatusCode)
	all := eventData(t, resp.Body)
	require.Greater(t, len(all), 3)
	require.Equal(t, "[DONE]", all[len(all)-1])
	var text strings.Builder
	role, finish, used := "", "", 0
	for _, data := range all[:len(all)-1] {
		var c chunk
		require.NoError(t, json.Unmarshal([]byte(data), &c), data)
		require.Empty(t, c.Error)
		require.NotEmpty(t, c.ID)
		require.NotZero(t, c.Created)
		if c.Usage != nil {
			used = c.Usage.TotalTokens
		}
		for _, choice := range c.Choices {
			if choice.Delta.Role != nil {
				role += *choice.Delta.Role
			}
			if choice.Delta.Content != nil {
				text.WriteString(*choice.Delta.Content)
			}
			if choice.FinishReason != nil {
				finish += *choice.FinishReason
			}
		}
	}
	assert.Equal(t, "assistant", role)
	assert.Equal(t, "stop", finish)
	assert.NotEmpty(t, text.String())
	assert.Positive(t, used)
}

// answerLine is a line of generate or chat. Go's and Python's clients take whole numbers of nanoseconds for the durations.
type answerLine struct {
	Model              string
	CreatedAt          time.Time `json:"created_at"`
	Response           string
	Message            struct{ Role, Content string }
	Done               bool
	DoneReason         string `json:"done_reason"`
	Error              string
	TotalDuration      time.Duration `json:"total_duration"`
	LoadDuration       time.Duration `json:"load_duration"`
	PromptEvalCount    int           `json:"prompt_eval_count"`
	PromptEvalDuration time.Duration `json:"prompt_eval_duration"`
	EvalCount          int           `json:"eval_count"`
	EvalDuration       time.Duration `json:"eval_duration"`
	Context            []int
}

func (s *suite) ollamaClient(t *testing.T) {
	for path, body := range map[string]any{
		"/api/chat":     s.chatBody(s.o.Prompt, true, nil),
		"/api/generate": s.generateBody(s.o.Prompt, true, nil),
	} {
		resp := s.post(t, t.Context(), path, body)
		require.Equal(t, 200, resp.StatusCode)
		var text strings.Builder
		var last answerLine
		for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
			require.False(t, last.Done, "something follows the last line")
			last = answerLine{}
			require.NoError(t, json.Unmarshal(scan.Bytes(), &last), scan.Text())
			require.Empty(t, last.Error)
			assert.Equal(t, s.o.Chat, last.Model)
			assert.WithinDuration(t, time.Now(), last.CreatedAt, time.Minute)
			text.WriteString(last.Response + last.Message.Content)
		}
		assert.NotEmpty(t, text.String(), path)
		assert.True(t, last.Done, path)
		assert.Equal(t, "stop", last.DoneReason, path)
		assert.Positive(t, last.TotalDuration, path)
		assert.Positive(t, last.PromptEvalCount, path)
		assert.Positive(t, last.EvalCount, path)
	}
}

type pullLine struct {
	Status, Digest, Error string
	Total, Completed      int64
}

// Pull reads the stream of a pull as Ollama's clients do (S45): for each file its bytes grow from 0 to all of them, and the last line
// is a success.
func Pull(t *testing.T, stream io.Reader) {
	t.Helper()
	var all []pullLine
	files := map[string]pullLine{}
	for scan := bufio.NewScanner(stream); scan.Scan(); {
		var l pullLine
		require.NoError(t, json.Unmarshal(scan.Bytes(), &l), scan.Text())
		require.Empty(t, l.Error)
		require.NotEmpty(t, l.Status)
		all = append(all, l)
		if l.Digest == "" {
			continue
		}
		before, known := files[l.Status]
		if !known {
			assert.Zero(t, l.Completed, "%s does not begin at 0", l.Status)
		}
		assert.GreaterOrEqual(t, l.Completed, before.Completed, l.Status)
		assert.True(t, !known || l.Digest == before.Digest && l.Total == before.Total, "%s: %+v, before %+v", l.Status, l, before)
		files[l.Status] = l
	}
	require.NotEmpty(t, files)
	for _, l := range files {
		assert.Equal(t, l.Total, l.Completed, l.Status)
	}
	assert.Equal(t, pullLine{Status: "pulling manifest"}, all[0])
	assert.Equal(t, pullLine{Status: "success"}, all[len(all)-1])
}
