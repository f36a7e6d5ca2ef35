package stop

// node is one prefix of one or more stop strings.
type node struct {
	next  map[byte]int32
	fail  int32 // the longest proper suffix of this prefix that is a prefix too
	depth int32
	stop  int32 // the longest stop string that ends here, as an index into stops; -1 for none
}

func (m *Matcher) add(stop string) {
	at := int32(0)
	for _, b := range []byte(stop) {
		child, ok := m.nodes[at].next[b]
		if !ok {
			child = int32(len(m.nodes))
			m.nodes = append(m.nodes, node{depth: m.nodes[at].depth + 1, stop: -1})
			if m.nodes[at].next == nil {
				m.nodes[at].next = make(map[byte]int32, 1)
			}
			m.nodes[at].next[b] = child
		}
		at = child
	}
	if m.nodes[at].stop < 0 {
		m.nodes[at].stop = int32(len(m.stops))
		m.stops = append(m.stops, stop)
	}
}

// link sets the fail links, shallow nodes first, so that those of a node's prefixes are known when it is reached.
func (m *Matcher) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for b, child := range m.nodes[at].next {
			if at != 0 {
				m.nodes[child].fail = m.step(m.nodes[at].fail, b)
			}
			if m.nodes[child].stop < 0 {
				m.nodes[child].stop = m.nodes[m.nodes[child].fail].stop
			}
			queue = append(queue, child)
		}
	}
}

func (m *Matcher) step(at int32, b byte) int32 {
	for {
		if child, ok := m.nodes[at].next[b]; ok {
			return child
		}
		if at == 0 {
			return 0
		}
		at = m.nodes[at].fail
	}
}
