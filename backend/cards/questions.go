package cards

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Question is one whose answer is known.
type Question struct {
	Text    string
	Answers []string // lower-case; one of them is in a right answer
}

// Questions are what a model is asked after its first load on a device: easy ones, that even small models know. The last one
// is long, so that reading a prompt can be measured.
var Questions = []Question{
	{"What is the capital of Norway? Answer with the name of the city.", []string{"oslo"}},
	{"What is 2+2? Answer with the number.", []string{"4", "four"}},
	{strings.Repeat("The train from the north arrives at noon, and the train from the south leaves after it. ", 8) +
		"Which planet do people live on? Answer with its name.", []string{"earth"}},
}

// AnswerTokens is how long an answer may become.
const AnswerTokens = 24

// Answer is what a device said to a Question.
type Answer struct {
	Question string `json:"question"`
	Said     string `json:"said"`
	Right    bool   `json:"right"`
}

// Mark says whether an answer is right. Right answers may have words around them.
func (q Question) Mark(said string) Answer {
	a := Answer{Question: lastSentences(q.Text), Said: said}
	words := strings.FieldsFunc(strings.ToLower(said), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range words {
		for _, right := range q.Answers {
			a.Right = a.Right || word == right
		}
	}
	return a
}

// lastSentences leaves out the text that only makes a prompt long.
func lastSentences(text string) string {
	if i := strings.LastIndex(text, "after it. "); i >= 0 {
		return text[i+len("after it. "):]
	}
	return text
}

// Judge compares a device's answers with those of the reference, a device that is taken to compute rightly (the CPU); nil: there is
// none, or this is it. A small model may not know an answer, and may change its mind over a rounding. So a device is wrong
// where it says what is no language and the reference does not, or where it knows nothing of what the same model knows on
// the reference. Without a reference only what is no language at all is wrong.
func Judge(said, reference []Answer) Verdict {
	right, garbled, known, missed := 0, 0, 0, 0
	for i, a := range said {
		switch {
		case a.Right:
			right++
		case Garbled(a.Said) && (i >= len(reference) || !Garbled(reference[i].Said)):
			garbled++
		}
		if i < len(reference) && reference[i].Right {
			known++
			if !a.Right {
				missed++
			}
		}
	}
	switch {
	case reference != nil && garbled > 0, len(said) > 0 && garbled == len(said), known > 0 && missed == known:
		return Wrong
	case right > 0:
		return Right
	}
	return Unsure
}

// Garbled tells a text that is no language in any alphabet from one that may be: nothing at all, broken characters, the same
// piece again and again, or Latin letters almost without vowels.
func Garbled(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsRune(text, utf8.RuneError) {
		return true
	}
	latin, vowels, letters := 0, 0, 0
	for _, r := range strings.ToLower(text) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			letters++
		}
		if 'a' <= r && r <= 'z' {
			latin++
			if strings.ContainsRune("aeiouy", r) {
				vowels++
			}
		}
	}
	return letters == 0 || latin >= 6 && vowels*100 < latin*15 || repeats(text)
}

// repeats tells whether nearly all of a text is one short piece repeated.
func repeats(text string) bool {
	const least = 16
	if len(text) < least {
		return false
	}
	for period := 1; period <= 6; period++ {
		same := 0
		for i := period; i < len(text); i++ {
			if text[i] == text[i-period] {
				same++
			}
		}
		if same*10 >= (len(text)-period)*9 {
			return true
		}
	}
	return false
}

// short is a text as part of a sentence.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}
