package cudnn

import (
	"bytes"
	"testing"
)

func FuzzDecodePlan(f *testing.F) {
	whole := EncodePlan([]byte("a plan"), "key")
	f.Add(whole, "key")
	f.Add(whole[:20], "key")
	f.Add([]byte(storeMagic), "")
	f.Fuzz(func(t *testing.T, content []byte, key string) {
		plan, ok := decodePlan(content, key)
		if ok && !bytes.Equal(EncodePlan(plan, key), content) {
			t.Errorf("%q is taken for %q", content, plan)
		}
		if again, ok := decodePlan(EncodePlan(content, key), key); ok != (len(content) > 0) || ok && !bytes.Equal(again, content) {
			t.Errorf("%q comes back as %q, %v", content, again, ok)
		}
	})
}
