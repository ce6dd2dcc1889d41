package media

import (
	"reflect"
	"testing"
)

func TestCoarse(t *testing.T) {
	m := &QPMap{Columns: 3, Rows: 2, QP: []uint8{10, 20, 30, 20, 30, 41}}
	for most, want := range map[int]QPMap{3: *m, 2: {2, 1, []uint8{20, 36}}, 1: {1, 1, []uint8{25}}} {
		if got := m.Coarse(most); !reflect.DeepEqual(*got, want) {
			t.Errorf("in %d cells: %+v, want %+v", most, got, want)
		}
	}
}
