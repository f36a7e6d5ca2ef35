package generate

import "signalbox/internal/openvino"

// input is a tensor of whole numbers that grows. It is written in place: no memory is taken for each token.
type input[T int32 | int64] struct {
	name   string // empty: the model has no such input
	tensor *openvino.Tensor
	data   []T // all the memory of tensor
}

// resize gives the input the shape dims and returns its elements. What was in it stays.
func (in *input[T]) resize(lib *openvino.Library, request *openvino.Request, dims ...int64) ([]T, error) {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	if n > len(in.data) {
		if err := in.grow(lib, request, n, len(dims)); err != nil {
			return nil, err
		}
	}
	return in.data[:n], in.tensor.Reshape(dims...)
}

// grow makes room for n elements in the last of rank dimensions; one stays one, for a dimension may have to be it.
func (in *input[T]) grow(lib *openvino.Library, request *openvino.Request, n, rank int) error {
	dims := make([]int64, rank)
	for i := range dims {
		dims[i] = 1
	}
	if n > 1 {
		dims[rank-1] = int64((n + 1023) / 1024 * 1024)
	}
	tensor, err := lib.NewTensor(openvino.TypeOf[T](), dims...)
	if err != nil {
		return err
	}
	data, err := openvino.Data[T](tensor)
	if err == nil {
		err = request.SetTensor(in.name, tensor)
	}
	if err != nil {
		tensor.Close()
		return err
	}
	copy(data, in.data)
	in.close()
	in.tensor, in.data = tensor, data
	return nil
}

func (in *input[T]) close() {
	if in.tensor != nil {
		in.tensor.Close()
	}
}
