package dispatch

import "strings"

// fields are the caller's names for what the record or an error names.
type fields struct {
	think  string // the wish to think
	format string // the form that is wanted of the answer
	answer string // the most tokens of the answer
	window string // the most tokens of prompt and answer together
}

// dialects are the fields by the beginning of a route; the first that fits counts.
var dialects = []struct {
	route  string
	fields fields
}{
	{"/api/", fields{"think", "format", "options.num_predict", "options.num_ctx"}},
	{"/v1/messages", fields{"thinking", "output_config", "max_tokens", "num_ctx"}},
	{"/v1/responses", fields{"reasoning", "text", "max_output_tokens", "num_ctx"}},
	{"", fields{"reasoning_effort", "response_format", "max_tokens", "num_ctx"}},
}

func fieldsOf(route string) fields {
	for _, d := range dialects {
		if strings.HasPrefix(route, d.route) {
			return d.fields
		}
	}
	return fields{}
}
