// Package constrain holds an answer to what a request asks for, token by token.
//
//	compiler := constrain.New(runtimeDir, constrain.Vocabulary{...}, constrain.Options{})   // one for a model
//	matcher, err := compiler.Compile(ctx, request.Constraint, request.Markers)              // one for an answer
//	defer matcher.Close()
//	for {
//		mask, err := matcher.Mask()       // nil: every token may come
//		if matcher.Done() {               // nothing may come: the answer is complete
//			break
//		}
//		sampler.SetMask(mask)
//		id := sampler.Pick(logits, history)
//		err = matcher.Accept(id)
//	}
//
// # Compiling
//
// The grammar library cannot be interrupted and bounds neither its time nor its memory. So what it is given is checked and
// bounded first (package schema), it compiles on a goroutine of its own with one thread, one grammar at a time
// for each model, and a caller waits at most Options.Limit. When that passes, the caller gets an error and the library is
// left alone with its work: Options.Stuck is called, so that the process can be replaced when its other answers have ended.
// Until then free answers go on as ever; constrained ones wait for the library to finish, and fail after the limit.
package constrain
