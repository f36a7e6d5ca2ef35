package generate

import (
	"math"

	"signalbox/internal/generate/ir"
	"signalbox/internal/openvino"
)

// hidden is added to the score of a cache entry that a token must not see.
const hidden = -math.MaxFloat32

// scores is the input ir.Mask: what is added to the attention scores. For a step it is one row of zeros that only gets longer.
type scores struct {
	row   *openvino.Tensor // [1, 1, 1, n]
	data  []float32        // all the memory of row
	stale bool             // entries were dropped since row was written
}

// set makes the input for n tokens on top of past cache entries. seen tells of each entry whether it is visible. The caller calls done
// after the inference: the matrix of a prompt is large.
func (m *scores) set(lib *openvino.Library, request *openvino.Request, n, past int, seen []int64) (done func() error, err error) {
	if err := m.lengthen(lib, request, past+n, seen); err != nil {
		return nil, err
	}
	if n == 1 {
		return func() error { return nil }, m.row.Reshape(1, 1, 1, int64(past+n))
	}
	matrix, err := lib.NewTensor(openvino.F32, 1, 1, int64(n), int64(past+n))
	if err != nil {
		return nil, err
	}
	data, err := openvino.Data[float32](matrix)
	if err == nil {
		causal(data, m.data[:past], n)
		err = request.SetTensor(ir.Mask, matrix)
	}
	if err != nil {
		matrix.Close()
		return nil, err
	}
	return func() error {
		matrix.Close()
		return request.SetTensor(ir.Mask, m.row)
	}, nil
}

// lengthen gives the row room for size entries, and writes it where it is new or stale.
func (m *scores) lengthen(lib *openvino.Library, request *openvino.Request, size int, seen []int64) error {
	if size <= len(m.data) && !m.stale {
		return nil
	}
	if size > len(m.data) {
		row, err := lib.NewTensor(openvino.F32, 1, 1, 1, int64((size+1023)/1024*1024))
		if err != nil {
			return err
		}
		data, err := openvino.Data[float32](row)
		if err == nil {
			err = request.SetTensor(ir.Mask, row)
		}
		if err != nil {
			row.Close()
			return err
		}
		m.close()
		m.row, m.data = row, data
	}
	clear(m.data)
	for i, bit := range seen {
		if bit == 0 {
			m.data[i] = hidden
		}
	}
	m.stale = false
	return nil
}

func (m *scores) close() {
	if m.row != nil {
		m.row.Close()
	}
}

// causal fills the matrix of n tokens that see the entries before them as past says, themselves, and each other backwards.
func causal(matrix, past []float32, n int) {
	width := len(past) + n
	for i := range n {
		row := matrix[i*width : (i+1)*width]
		copy(row, past)
		clear(row[len(past) : len(past)+i+1])
		after := row[len(past)+i+1:]
		for j := range after {
			after[j] = hidden
		}
	}
}
