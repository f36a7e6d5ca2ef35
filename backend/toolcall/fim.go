package toolcall

import "strings"

// gap is how a model is asked for what is missing in the middle of a text.
type gap struct{ before, between, after string }

var gaps = []gap{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
	{"▁<PRE>", "▁<SUF>", "▁<MID>"},
}

// FillInTheMiddle returns the text that asks a model for what comes between prefix and suffix, and whether the model knows how:
// known tells which special tokens it has.
func FillInTheMiddle(prefix, suffix string, known func(token string) bool) (text string, ok bool) {
	for _, g := range gaps {
		if known(g.before) && known(g.between) && known(g.after) {
			return g.before + prefix + g.between + suffix + g.after, true
		}
	}
	if known("[SUFFIX]") && known("[PREFIX]") { // Codestral: the suffix comes first
		return "[SUFFIX]" + suffix + "[PREFIX]" + prefix, true
	}
	return "", false
}

// Inserts tells whether the description of a tokenizer (tokenizer_config.json) has the tokens that FillInTheMiddle needs.
func Inserts(tokenizer string) bool {
	_, ok := FillInTheMiddle("", "", func(token string) bool { return strings.Contains(tokenizer, `"`+token+`"`) })
	return ok
}
