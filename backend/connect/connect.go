// Package connect knows how programs are pointed at Signalbox: for each the exact settings, with the port and the model that are
// really there. Most of them ran with these settings against this server (test/clients); the others are from their makers'
// documentation.
package connect

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Target is what to point at.
type Target struct {
	URL     string // "http://127.0.0.1:11434"
	Model   string // "smollm2:135m"
	Context int    // tokens that the model takes; 0: unknown
	Embed   string // an embedding model; empty: none
}

// Client is a program and how to connect it.
type Client struct {
	ID     string `json:"id"`     // "continue": what `signalbox connect` takes
	Name   string `json:"name"`   // "Continue": what the journal calls it
	Kind   string `json:"kind"`   // editor, agent, app or library
	Speaks string `json:"speaks"` // ollama, openai or anthropic
	Steps  []Step `json:"steps"`
	Note   string `json:"note,omitempty"`
}

// Step is one thing to do.
type Step struct {
	Title    string `json:"title"`
	File     string `json:"file,omitempty"` // where Text goes, as people know the place
	Language string `json:"language"`       // of Text: yaml, json, toml, bash, python, js or text
	Text     string `json:"text"`
}

// Find returns the client with that id; ok is false when there is none.
func Find(t Target, id string) (Client, bool) {
	list := Clients(t)
	i := slices.IndexFunc(list, func(c Client) bool { return c.ID == strings.ToLower(id) })
	if i < 0 {
		return Client{}, false
	}
	return list[i], true
}

// Clients are all clients there are settings for, those people look for first in front.
func Clients(t Target) []Client {
	if t.Model == "" {
		t.Model = "MODEL"
	}
	return slices.Concat(editors(t), agents(t), apps(t), libraries(t))
}

func (t Target) v1() string { return t.URL + "/v1" }

// host is what OLLAMA_HOST wants.
func (t Target) host() string {
	if u, err := url.Parse(t.URL); err == nil {
		return u.Host
	}
	return t.URL
}

// context is a number for clients that must be given one.
func (t Target) context() int {
	if t.Context > 0 {
		return t.Context
	}
	return 8192
}

func editors(t Target) []Client {
	embed := ""
	if t.Embed != "" {
		embed = fmt.Sprintf("  - name: Signalbox embeddings\n    provider: ollama\n    model: %q\n    apiBase: %s\n    roles: [embed]\n", t.Embed, t.URL)
	}
	return []Client{
		{ID: "copilot", Name: "GitHub Copilot", Kind: "editor", Speaks: "openai", Steps: []Step{
			{"In VS Code's settings", "settings.json", "json", fmt.Sprintf("\"github.copilot.chat.byok.ollamaEndpoint\": %q", t.URL)},
			{"Then, in the chat's model list", "", "text", "Manage Models… → Ollama → " + t.Model},
		}},
		{ID: "continue", Name: "Continue", Kind: "editor", Speaks: "openai", Steps: []Step{
			{"Settings of the extension and of the command cn", "~/.continue/config.yaml", "yaml", fmt.Sprintf(
				"name: Signalbox\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: Signalbox\n    provider: ollama\n    model: %q\n    apiBase: %s\n    roles: [chat, edit, apply, autocomplete]\n    capabilities: [tool_use]\n%s",
				t.Model, t.URL, embed)},
		}},
		{ID: "cline", Name: "Cline", Kind: "editor", Speaks: "ollama", Steps: []Step{
			{"In Cline's settings", "", "text", fmt.Sprintf("API Provider: Ollama\nBase URL: %s\nModel: %s\nContext window: %d", t.URL, t.Model, t.context())},
			{"Or, in a terminal, on port 11434", "", "bash", "cline -P ollama -m " + t.Model},
		}, Note: "Its first prompt has about 5,500 tokens: choose a model with a large context, and a device that takes it."},
		{ID: "zed", Name: "Zed", Kind: "editor", Speaks: "ollama", Steps: []Step{
			{"In Zed's settings", "~/.config/zed/settings.json", "json", fmt.Sprintf(
				"{\n  \"language_models\": { \"ollama\": { \"api_url\": %q } },\n  \"agent\": { \"default_model\": { \"provider\": \"ollama\", \"model\": %q } }\n}", t.URL, t.Model)},
		}},
		{ID: "jetbrains", Name: "JetBrains", Kind: "editor", Speaks: "ollama", Steps: []Step{
			{"Settings → Tools → AI Assistant → Models", "", "text", fmt.Sprintf("Provider: Ollama\nURL: %s\nTest Connection, then choose %s", t.URL, t.Model)},
		}},
	}
}

func agents(t Target) []Client {
	return []Client{
		{ID: "opencode", Name: "opencode", Kind: "agent", Speaks: "openai", Steps: []Step{
			{"In your project, or for all of them", "opencode.json (~/.config/opencode/opencode.json)", "json", fmt.Sprintf(`{
  "$schema": "https://opencode.ai/config.json",
  "provider": {
    "signalbox": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Signalbox",
      "options": { "baseURL": %q },
      "models": { %q: { "name": %q, "limit": { "context": %d, "output": %d } } }
    }
  },
  "model": %q,
  "small_model": %q
}`, t.v1(), t.Model, t.Model, t.context(), min(4096, t.context()/2), "signalbox/"+t.Model, "signalbox/"+t.Model)},
		}},
		{ID: "codex", Name: "Codex", Kind: "agent", Speaks: "openai", Steps: []Step{
			{"Settings", "~/.codex/config.toml", "toml", fmt.Sprintf(
				"model = %q\nmodel_provider = \"signalbox\"\n\n[model_providers.signalbox]\nname = \"Signalbox\"\nbase_url = %q\nwire_api = \"responses\"", t.Model, t.v1())},
			{"Or, on port 11434, without settings", "", "bash", "codex --oss --local-provider ollama -m " + t.Model},
		}},
		{ID: "claude", Name: "Claude Code", Kind: "agent", Speaks: "anthropic", Steps: []Step{
			{"In a terminal", "", "bash", fmt.Sprintf(
				"export ANTHROPIC_BASE_URL=%s ANTHROPIC_AUTH_TOKEN=signalbox\nexport ANTHROPIC_MODEL=%s ANTHROPIC_DEFAULT_HAIKU_MODEL=%s\nexport CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_ATTRIBUTION_HEADER=0\nclaude",
				t.URL, t.Model, t.Model)},
		}, Note: "The base URL is without /v1. Its first prompt has about 20,000 tokens: choose a model with a large context."},
		{ID: "qwen", Name: "Qwen Code", Kind: "agent", Speaks: "openai", Steps: []Step{
			{"In a terminal", "", "bash", fmt.Sprintf("OPENAI_BASE_URL=%s OPENAI_API_KEY=signalbox OPENAI_MODEL=%s qwen --auth-type openai", t.v1(), t.Model)},
		}},
		{ID: "copilot-cli", Name: "Copilot CLI", Kind: "agent", Speaks: "openai", Steps: []Step{
			{"In a terminal", "", "bash", fmt.Sprintf(
				"export COPILOT_PROVIDER_BASE_URL=%s COPILOT_PROVIDER_TYPE=openai COPILOT_MODEL=%s\nexport COPILOT_OFFLINE=true   # nothing to GitHub\ncopilot", t.v1(), t.Model)},
		}, Note: "Its first prompt has about 12,000 tokens; --available-tools view cuts it to 2,300."},
		{ID: "pi", Name: "pi", Kind: "agent", Speaks: "openai", Steps: []Step{
			{"Settings", "~/.pi/agent/models.json", "json", fmt.Sprintf(
				"{\n  \"providers\": {\n    \"signalbox\": {\n      \"baseUrl\": %q,\n      \"api\": \"openai-completions\",\n      \"apiKey\": \"signalbox\",\n      \"models\": [{ \"id\": %q }]\n    }\n  }\n}", t.v1(), t.Model)},
			{"In a terminal", "", "bash", "pi --provider signalbox --model " + t.Model},
		}},
		{ID: "aider", Name: "aider", Kind: "agent", Speaks: "ollama", Steps: []Step{
			{"In a terminal", "", "bash", fmt.Sprintf("OLLAMA_API_BASE=%s aider --model ollama_chat/%s", t.URL, t.Model)},
		}},
	}
}

func apps(t Target) []Client {
	return []Client{
		{ID: "open-webui", Name: "Open WebUI", Kind: "app", Speaks: "ollama", Steps: []Step{
			{"When it starts", "", "bash", "OLLAMA_BASE_URL=" + t.URL + " open-webui serve"},
		}},
		{ID: "home-assistant", Name: "Home Assistant", Kind: "app", Speaks: "ollama", Steps: []Step{
			{"Settings → Devices & services → Add integration → Ollama", "", "text", "URL: " + t.URL + "\nModel: " + t.Model},
		}, Note: "It must run on this computer: Signalbox answers no other."},
		{ID: "obsidian", Name: "Obsidian", Kind: "app", Speaks: "ollama", Steps: []Step{
			{"In the plugin's settings", "", "text", "Ollama server: " + t.URL + "\nModel: " + t.Model},
		}},
		{ID: "llm", Name: "llm", Kind: "app", Speaks: "ollama", Steps: []Step{
			{"In a terminal", "", "bash", fmt.Sprintf("llm install llm-ollama\nOLLAMA_HOST=%s llm -m ollama/%s \"Hello\"", t.host(), t.Model)},
		}},
	}
}

func libraries(t Target) []Client {
	return []Client{
		{ID: "openai-python", Name: "openai-python", Kind: "library", Speaks: "openai", Steps: []Step{
			{"In Python", "", "python", fmt.Sprintf(
				"from openai import OpenAI\nclient = OpenAI(base_url=%q, api_key=\"signalbox\")\nprint(client.chat.completions.create(model=%q, messages=[{\"role\": \"user\", \"content\": \"Hello\"}]).choices[0].message.content)", t.v1(), t.Model)},
		}},
		{ID: "openai-js", Name: "openai-js", Kind: "library", Speaks: "openai", Steps: []Step{
			{"In JavaScript", "", "js", fmt.Sprintf(
				"import OpenAI from \"openai\";\nconst client = new OpenAI({ baseURL: %q, apiKey: \"signalbox\" });\nconst answer = await client.chat.completions.create({ model: %q, messages: [{ role: \"user\", content: \"Hello\" }] });\nconsole.log(answer.choices[0].message.content);", t.v1(), t.Model)},
		}},
		{ID: "ollama-python", Name: "ollama-python", Kind: "library", Speaks: "ollama", Steps: []Step{
			{"In Python", "", "python", fmt.Sprintf(
				"from ollama import Client\nprint(Client(host=%q).chat(model=%q, messages=[{\"role\": \"user\", \"content\": \"Hello\"}]).message.content)", t.URL, t.Model)},
		}},
		{ID: "anthropic-python", Name: "anthropic-python", Kind: "library", Speaks: "anthropic", Steps: []Step{
			{"In Python", "", "python", fmt.Sprintf(
				"from anthropic import Anthropic\nclient = Anthropic(base_url=%q, api_key=\"signalbox\")\nprint(client.messages.create(model=%q, max_tokens=256, messages=[{\"role\": \"user\", \"content\": \"Hello\"}]).content[0].text)", t.URL, t.Model)},
		}},
		{ID: "curl", Name: "curl", Kind: "library", Speaks: "openai", Steps: []Step{
			{"In a terminal", "", "bash", fmt.Sprintf(
				"curl %s/chat/completions -d '{\"model\": %q, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'", t.v1(), t.Model)},
		}},
	}
}
