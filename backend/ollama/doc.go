// Package ollama is the Ollama dialect on the wire: what its requests say, turned into llm's words, and the bodies and
// stream lines of its answers. It knows no HTTP and keeps no state.
//
//	req, err := ollama.ParseChat(body)     // *llm.Error in Ollama's words
//	... dispatch req.LLM ...
//	line := ollama.ChatPiece(req.Model, now, delta)
package ollama
