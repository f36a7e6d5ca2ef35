// Package openai is the OpenAI dialect on the wire: what its requests say, turned into llm's words, and the bodies and
// stream frames of its answers. It knows no HTTP and keeps no state.
package openai
