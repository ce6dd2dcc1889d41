package pooling

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/prefillonly/prefillonly/engine/api"
)

// appendList appends the answer's head and data, an element of which each result is, without the end of the object.
func (a *Answer) appendList(b []byte, spill api.Spill, prefix string, element func(b []byte, i int) []byte) []byte {
	b = api.AppendString(append(b, `{"id":`...), prefix+a.ID)
	b = strconv.AppendInt(append(b, `,"object":"list","created":`...), a.Created, 10)
	b = api.AppendString(append(b, `,"model":`...), a.Model)
	return api.AppendElements(append(b, `,"data":`...), len(a.Results), spill, element)
}

// appendElement begins the i-th element of a list.
func appendElement(b []byte, i int, object string) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
	return api.AppendString(append(b, `,"object":`...), object)
}

// appendVector appends the numbers of r; with rows as a list of the vectors in it.
func appendVector(b []byte, r *Result, inBase64, rows bool) []byte {
	switch {
	case inBase64:
		return appendBase64(b, r.Vector)
	case !rows:
		return appendFloats(b, r.Vector)
	}
	width := len(r.Vector) / max(r.Rows, 1)
	return api.AppendElements(b, r.Rows, nil, func(b []byte, i int) []byte { return appendFloats(b, r.Vector[i*width:(i+1)*width]) })
}

// appendBase64 appends numbers as little-endian FP32.
func appendBase64(b []byte, v []float32) []byte {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	b = base64.StdEncoding.AppendEncode(append(b, '"'), raw)
	return append(b, '"')
}

func appendFloats(b []byte, v []float32) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}

func appendScores(b []byte, v []float64) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendScore(b, x)
	}
	return append(b, ']')
}

func appendScore(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'g', -1, 64) }
