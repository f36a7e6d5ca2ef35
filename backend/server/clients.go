package server

import (
	"net/http"
	"regexp"
	"strings"
)

// clients are the programs known by their User-Agent: a part of it, lower-case, and the name people know. Agents come
// before the SDKs they are built on.
var clients = []struct{ part, name string }{
	{"githubcopilotchat", "GitHub Copilot"},
	{"copilot", "GitHub Copilot"},
	{"continue", "Continue"},
	{"cline", "Cline"},
	{"roo-code", "Roo Code"},
	{"roocode", "Roo Code"},
	{"opencode", "opencode"},
	{"codex", "Codex"},
	{"claude-cli", "Claude Code"},
	{"claude-code", "Claude Code"},
	{"qwencode", "Qwen Code"},
	{"qwen-code", "Qwen Code"},
	{"aider", "aider"},
	{"zed", "Zed"},
	{"jetbrains", "JetBrains"},
	{"intellij", "JetBrains"},
	{"goose", "Goose"},
	{"open-webui", "Open WebUI"},
	{"openwebui", "Open WebUI"},
	{"home-assistant", "Home Assistant"},
	{"homeassistant", "Home Assistant"},
	{"obsidian", "Obsidian"},
	{"raycast", "Raycast"},
	{"ollama-python", "ollama-python"},
	{"ollama-js", "ollama-js"},
	{"openai/python", "openai-python"},
	{"asyncopenai/python", "openai-python"},
	{"openai/js", "openai-js"},
	{"anthropic/python", "anthropic-python"},
	{"anthropic/js", "anthropic-js"},
	{"langchain", "LangChain"},
	{"litellm", "LiteLLM"},
	{"ai-sdk", "AI SDK"},
	{"signalbox", "signalbox"},
	{"curl/", "curl"},
	{"mozilla/", "Browser"},
}

var product = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,39}`)

// clientName says who sends a request, for records and the window.
func clientName(r *http.Request) string {
	if visitorOf(r).window {
		return "Signalbox"
	}
	if name := saysItself(r); name != "" {
		return name
	}
	agent := strings.ToLower(r.UserAgent())
	for _, c := range clients {
		if strings.Contains(agent, c.part) {
			return c.name
		}
	}
	// The libraries of OpenAI and Anthropic name themselves after their class, which packers rename: Continue's says "ls/JS".
	if lang := r.Header.Get("x-stainless-lang"); lang == "js" || lang == "python" {
		return "openai-" + lang
	}
	if token := product.FindString(r.UserAgent()); token != "" {
		return token
	}
	return "unknown"
}

// saysItself is the name of a program whose User-Agent is that of a library, where another header tells: Copilot CLI sends what
// GitHub's own service wants to know, Roo Code and others send their title, as OpenRouter asks for. It is empty for all others.
func saysItself(r *http.Request) string {
	if r.Header.Get("X-Initiator") != "" && strings.HasPrefix(r.Header.Get("X-Interaction-Type"), "conversation-") {
		return "GitHub Copilot"
	}
	title := r.Header.Get("X-Title")
	for _, c := range clients {
		if title != "" && strings.EqualFold(title, c.name) {
			return c.name
		}
	}
	return ""
}

// knownClient is a client's name where it may be a label: names that callers made up are one.
func knownClient(name string) string {
	if name == "Signalbox" {
		return name
	}
	for _, c := range clients {
		if c.name == name {
			return name
		}
	}
	return "other"
}

// userAgent is the header as it may be kept and shown: no control characters, and not endless.
func userAgent(r *http.Request) string {
	const most = 200
	clean := strings.Map(func(c rune) rune {
		if c < 0x20 || (c >= 0x7f && c < 0xa0) || c == '\u2028' || c == '\u2029' || c == '\ufffd' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(r.UserAgent(), ""))
	if len(clean) > most {
		clean = strings.ToValidUTF8(clean[:most], "")
	}
	return clean
}
