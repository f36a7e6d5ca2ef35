package wire

// Event is one server-sent event with a name; without one when name is empty.
func Event(name string, data []byte) []byte {
	out := make([]byte, 0, len(name)+len(data)+20)
	if name != "" {
		out = append(out, "event: "...)
		out = append(out, name...)
		out = append(out, '\n')
	}
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}
