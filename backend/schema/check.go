package schema

import (
	"regexp"
	"strconv"

	"signalbox/backend/llm"
)

// Check tells whether a constraint can be enforced, before anything is loaded for it: what cannot is an *llm.Error with
// CodeInvalid that names it.
func Check(want *llm.Constraint) (err error) {
	switch {
	case want == nil || want.JSON:
	case want.Schema != nil:
		_, err = Normal(want.Schema)
	case want.Regex != "":
		_, err = Regex(want.Regex)
	case want.EBNF != "":
		err = Grammar(want.EBNF)
	case want.Structural != nil:
		_, err = Structural(want.Structural, 0)
	}
	return err
}

// maxGrammar bounds the text of a grammar. Its repetitions are bounded by maxRepeats: the library writes them out.
const maxGrammar = 64 << 10

var repeatedPart = regexp.MustCompile(`\{\s*(\d*)\s*,?\s*(\d*)\s*\}`)

// Grammar bounds a grammar in EBNF.
func Grammar(text string) error {
	if len(text) > maxGrammar {
		return llm.Errorf(llm.CodeInvalid, "the grammar has %d bytes, more than the %d that are read", len(text), maxGrammar)
	}
	total := 0
	for _, m := range repeatedPart.FindAllStringSubmatch(text, -1) {
		least, _ := strconv.Atoi(m[1])
		most, _ := strconv.Atoi(m[2])
		if total += max(least, most); total > maxRepeats {
			return llm.Errorf(llm.CodeInvalid, "the grammar's repetitions come to more than %d", maxRepeats)
		}
	}
	return nil
}
