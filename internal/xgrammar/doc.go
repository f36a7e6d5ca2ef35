// Package xgrammar calls the xgrammar library from Go, without cgo: grammars become sets of tokens that may come next.
//
// Begin with Load, which opens the libraries below a runtime folder, and tell it the vocabulary:
//
//	lib, err := xgrammar.Load(runtimeDir)
//	tokenizer, err := lib.NewTokenizer(xgrammar.Vocabulary{Tokens: tokens, Size: logits, Stops: ends})
//	compiler, err := tokenizer.NewCompiler(xgrammar.CompilerOptions{Threads: 1, CacheBytes: 64 << 20})
//	grammar, err := compiler.JSONSchema(`{"type":"integer"}`, xgrammar.JSONFormat{})
//	matcher, err := grammar.NewMatcher()
//	mask := make([]int32, tokenizer.MaskWords())
//	for !matcher.Terminated() {
//		err = matcher.FillMask(mask)
//		ok, err := matcher.Accept(pick(mask))
//	}
//
// Every object is safe for use by several goroutines (a Matcher serves one at a time), may be closed twice and in any
// order, and must be closed: the collector does not see the library's memory. Compiling cannot be interrupted and its
// time and memory are not bounded by the library; callers bound what they compile.
//
// xgrammar is reached through TVM FFI, the object and calling convention that it shares with TVM: functions are found by
// reflection and take arrays of tagged values. That part is in call.go and value.go.
package xgrammar
