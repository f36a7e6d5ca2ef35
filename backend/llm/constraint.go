package llm

import "encoding/json"

// Constraint is what an answer must look like. Exactly one of the kinds is set. It is held token by token: the answer cannot
// be anything else, whatever the model would like.
type Constraint struct {
	JSON       bool            `json:"json,omitempty"`       // any JSON object
	Schema     json.RawMessage `json:"schema,omitempty"`     // JSON Schema, keys in the caller's order
	Regex      string          `json:"regex,omitempty"`      // the whole answer matches
	EBNF       string          `json:"ebnf,omitempty"`       // xgrammar's EBNF; the rule "root" is the answer
	Structural json.RawMessage `json:"structural,omitempty"` // xgrammar's structural tag: free text with constrained parts (tool calls)

	// After is the text that ends a free part before the constrained one, such as "</think>"; empty: constrained from the
	// first token.
	After string `json:"after,omitempty"`
}
