// Package anthropic is the Anthropic dialect on the wire: what its requests say, turned into llm's words, and the bodies and
// stream events of its answers. It knows no HTTP and keeps no state.
package anthropic
