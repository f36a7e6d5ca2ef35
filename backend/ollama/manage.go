package ollama

import (
	"encoding/json"
	"strings"

	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/wire"
)

// Pull is a request of /api/pull.
type Pull struct {
	Model  string
	Stream bool
}

// ParsePull reads a request of /api/pull.
func ParsePull(body []byte) (Pull, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Pull{}, err
	}
	p := Pull{Model: takeModel(o), Stream: streams(o)}
	if p.Model == "" {
		o.FailAt("model", "invalid model name")
	}
	return p, o.Err()
}

func streams(o *wire.Object) bool {
	stream := o.Bool("stream")
	return stream == nil || *stream
}

// ParseModel reads a request that names a model and nothing else: delete, and push.
func ParseModel(body []byte) (string, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return "", err
	}
	return takeModel(o), o.Err()
}

// ParseCopy reads a request of /api/copy.
func ParseCopy(body []byte) (source, destination string, err error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return "", "", err
	}
	return o.Text("source"), o.Text("destination"), o.Err()
}

// Create is a request of /api/create.
type Create struct {
	models.Creation
	Files  map[string]string // name: digest, of blobs that the client sent
	Stream bool
}

// ParseCreate reads a request of /api/create: fields, or a whole Modelfile as older clients send it.
func ParseCreate(body []byte) (Create, error) {
	o, err := wire.Parse(body, words)
	if err != nil {
		return Create{}, err
	}
	c := Create{Stream: streams(o)}
	if text := o.Text("modelfile"); text != "" {
		if c.Creation, err = models.ParseModelfile(text); err != nil {
			return c, err
		}
	}
	c.Name = takeModel(o)
	take := func(to *string, name string) {
		if text := o.Text(name); text != "" {
			*to = text
		}
	}
	take(&c.From, "from")
	take(&c.System, "system")
	take(&c.Template, "template")
	c.License = cmpOr(license(o.Raw("license")), c.License)
	if parameters := o.Object("parameters"); parameters != nil {
		for _, name := range parameters.Names() {
			c.Parameters = append(c.Parameters, models.Parameter{Name: name, Value: parameters.Raw(name)})
		}
	}
	for _, m := range o.Objects("messages") {
		c.Messages = append(c.Messages, takeMessage(m))
	}
	if o.Raw("files") != nil {
		if err := json.Unmarshal(o.Raw("files"), &c.Files); err != nil {
			o.WrongType("files", "object")
		}
	}
	if err := o.Err(); err != nil {
		return c, err
	}
	return c, refusals(o, c)
}

// refusals are what a variant cannot be.
func refusals(o *wire.Object, c Create) error {
	switch {
	case c.Name == "":
		return llm.Errorf(llm.CodeInvalid, "model is required")
	case len(o.Raw("adapters")) > len("{}"):
		return models.AdapterRefused()
	case o.Text("quantize") != "":
		return llm.Errorf(llm.CodeUnsupported, "models are not quantized here").WithHint("pull one whose name has int4 or int8 in it")
	case goAction.MatchString(c.Template):
		return llm.Errorf(llm.CodeUnsupported, "template is in Go's template language, and models here have Jinja templates: leave it out, and the model's own is used")
	case c.From == "" && len(c.Files) == 0:
		return llm.Errorf(llm.CodeInvalid, "neither 'from' or 'files' was specified")
	}
	return nil
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// license is one text or a list of them.
func license(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var many []string
	_ = json.Unmarshal(raw, &many) // what is neither is no license
	return strings.Join(many, "\n")
}

// StatusFrame is a line that only says what happens.
func StatusFrame(status string) []byte {
	return marshal(struct {
		Status string `json:"status"`
	}{status})
}

// FileFrame is a line about a file on its way. completed is there also while it is 0.
func FileFrame(status, digest string, total, completed int64) []byte {
	return marshal(struct {
		Status    string `json:"status"`
		Digest    string `json:"digest"`
		Total     int64  `json:"total"`
		Completed int64  `json:"completed"`
	}{status, digest, total, completed})
}
