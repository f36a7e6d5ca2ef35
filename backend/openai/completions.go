package openai

import (
	"unicode/utf8"

	"signalbox/backend/llm"
	"signalbox/backend/wire"
)

// maxPrompts bounds the prompts of one request: they run one after the other.
const maxPrompts = 256

// Text is a request of /v1/completions.
type Text struct {
	Model        string
	Prompts      []string // at least one; each gets an answer
	Stream       bool
	IncludeUsage bool
	Echo         bool        // the answer begins with its prompt
	LLM          llm.Request // for the first prompt
}

// Request is the request for one of the prompts.
func (t Text) Request(i int) llm.Request {
	req := t.LLM
	req.Prompt = t.Prompts[i]
	return req
}

// ParseCompletions reads a request of /v1/completions. The prompt goes to the model as it is: whoever wants a chat template
// has the chat route.
func ParseCompletions(body []byte) (Text, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Text{}, err
	}
	t := Text{Model: takeModel(o), Stream: o.True("stream"), Echo: o.True("echo")}
	t.Prompts = takePrompts(o)
	t.IncludeUsage = takeStreamOptions(o)
	takeSampling(o, &t.LLM)
	if n := o.Int(probsOfText); n != nil {
		t.LLM.Logprobs, t.LLM.TopLogprobs = true, int(*n)
	}
	takeN(o)
	if n := o.Int(bestOf); n != nil && *n > 1 {
		o.Fail(notSupported("best_of", "best_of > 1 is not supported"))
	}
	t.LLM.Suffix = o.Text("suffix")
	t.LLM.Raw = t.LLM.Suffix == ""
	switch {
	case t.Stream && len(t.Prompts) > 1:
		o.Fail(notSupported("prompt", "a stream answers one prompt, not %d: send them one by one, or without stream", len(t.Prompts)))
	case t.Echo && t.LLM.Logprobs:
		o.Fail(notSupported("echo", "echo with logprobs is not supported: the prompt's own log probabilities are not computed"))
	case t.Echo && t.LLM.Suffix != "":
		o.Fail(notSupported("echo", "echo with suffix is not supported"))
	}
	t.LLM.Constraint = takeFormat(o.Object("response_format"))
	o.Ignore("user", "metadata", "store")
	if err := finish(o, t.Model, &t.LLM); err != nil {
		return t, err
	}
	t.LLM.Prompt = t.Prompts[0]
	return t, nil
}

func takePrompts(o *wire.Object) []string {
	raw := o.Raw("prompt")
	switch wire.Kind(raw) {
	case "string":
	case "array":
		for _, item := range o.Array("prompt") {
			switch wire.Kind(item) {
			case "string":
			case "number", "array":
				o.FailAt("prompt", "a prompt as token ids is not supported: send text")
				return nil
			default:
				o.FailAt("prompt", "prompt must be a string or a list of strings")
				return nil
			}
		}
	default:
		o.FailAt("prompt", "prompt must be a string or a list of strings")
		return nil
	}
	prompts := o.Texts("prompt", maxPrompts)
	if len(prompts) == 0 {
		o.FailAt("prompt", "[] is too short - 'prompt'")
	}
	return prompts
}

type textChoice struct {
	Text         string        `json:"text"`
	Index        int           `json:"index"`
	Logprobs     *textLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	Record       *llm.Record   `json:"llmeu,omitempty"` // of one of several prompts; of a single one it stands in the answer
}

// textLogprobs is the older shape: lists side by side.
type textLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

// TextCompletion makes the answer to one request of /v1/completions. It follows the answer, so there is one for each request.
type TextCompletion struct {
	ID           string // "cmpl-..."
	Created      int64
	Model        string
	IncludeUsage bool
	Logprobs     bool
	Echo         string // stands before the answer

	offset int // characters so far
}

// Begin is the first frame's object, when the answer begins with its prompt; else nil.
func (t *TextCompletion) Begin() []byte {
	if t.Echo == "" {
		return nil
	}
	t.offset = utf8.RuneCountInString(t.Echo)
	return marshal(t.chunk([]any{textChoice{Text: t.Echo}}, nil))
}

// Piece is the object of one delta's frame. Thinking is text here: the prompt was the caller's own.
func (t *TextCompletion) Piece(d llm.Delta) []byte {
	return marshal(t.chunk([]any{textChoice{Text: d.Thinking + d.Text, Logprobs: t.probs(d.Logprobs)}}, nil))
}

// Done is the objects of the last frames before [DONE].
func (t *TextCompletion) Done(rec llm.Record, stats llm.Stats) [][]byte {
	reason := finishReason(stats.Finish)
	frames := [][]byte{marshal(t.chunk([]any{textChoice{FinishReason: &reason}}, &rec))}
	if t.IncludeUsage {
		u := usageOf(stats)
		end := t.chunk([]any{}, nil)
		end.Usage = &u
		frames = append(frames, marshal(end))
	}
	return frames
}

// TextAnswer is the answer to one of the prompts.
type TextAnswer struct {
	Prompt string // with Echo
	Parts  *wire.Parts
	Stats  llm.Stats
	Record llm.Record
}

// Whole is the one object of answers that are not streamed. Each prompt is a request of its own, so that each of several
// choices has its own record; that of a single prompt is the answer's.
func (t *TextCompletion) Whole(answers []TextAnswer) []byte {
	choices := []any{}
	var sum usage
	for i, a := range answers {
		t.offset = 0
		reason := finishReason(a.Stats.Finish)
		var text string
		for _, part := range a.Parts.List {
			text += part.Text()
		}
		choice := textChoice{Text: a.Prompt + text, Index: i, Logprobs: t.probs(a.Parts.Logprobs), FinishReason: &reason}
		if len(answers) > 1 {
			choice.Record = &a.Record
		}
		choices = append(choices, choice)
		sum = sum.plus(usageOf(a.Stats))
	}
	whole := t.chunk(choices, nil)
	if len(answers) == 1 {
		whole.Record = &answers[0].Record
	}
	whole.Usage = &sum
	return marshal(whole)
}

func (u usage) plus(v usage) usage {
	cached := v.PromptDetails.CachedTokens
	if u.PromptDetails != nil {
		cached += u.PromptDetails.CachedTokens
	}
	return usage{
		u.PromptTokens + v.PromptTokens, u.CompletionTokens + v.CompletionTokens, u.TotalTokens + v.TotalTokens, &promptDetails{cached},
	}
}

func (t *TextCompletion) chunk(choices []any, rec *llm.Record) chunk {
	return chunk{
		ID: t.ID, Object: "text_completion", Created: t.Created, Model: t.Model, SystemFingerprint: fingerprint, Choices: choices, Record: rec,
	}
}

func (t *TextCompletion) probs(list []llm.TokenLogprob) *textLogprobs {
	if !t.Logprobs {
		return nil
	}
	out := &textLogprobs{Tokens: []string{}, TokenLogprobs: []float64{}, TopLogprobs: []map[string]float64{}, TextOffset: []int{}}
	for _, l := range list {
		out.Tokens = append(out.Tokens, l.Token)
		out.TokenLogprobs = append(out.TokenLogprobs, l.Logprob)
		top := map[string]float64{}
		for _, other := range l.Top {
			top[other.Token] = other.Logprob
		}
		out.TopLogprobs = append(out.TopLogprobs, top)
		out.TextOffset = append(out.TextOffset, t.offset)
		t.offset += utf8.RuneCountInString(l.Token)
	}
	return out
}
