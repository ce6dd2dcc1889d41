//go:build cudnn

package cuda

import (
	"testing"
	"time"

	"github.com/prefillonly/prefillonly/kernels/cuda/cudatest"
	"github.com/prefillonly/prefillonly/kernels/cuda/cudnn"
)

// checkedBuckets are all sizes of call up to a chunk of 8192 rows and 128k keys.
func checkedBuckets() []cudnn.AttentionBucket {
	var all []cudnn.AttentionBucket
	for _, batch := range packs {
		for rows := shortest; rows <= 8192 && (batch == 1 || rows <= shortRows); rows = rowsBucket(rows + 1) {
			for keys := shortestKeys; keys <= 128<<10; keys = keysBucket(keys + 1) {
				all = append(all, cudnn.AttentionBucket{Batch: batch, Rows: rows, Keys: keys})
			}
		}
	}
	return all
}

// TestCudnnPlans has the real cuDNN compile, for GPUs that are not there, every plan of the bucket
// table at Llama-3.1-8B's shape, and one at others'. `make check-cudnn` runs it.
func TestCudnnPlans(t *testing.T) {
	shape := func(q, kv, dim, block, window int) cudnn.AttentionShape {
		return cudnn.AttentionShape{QHeads: q, KVHeads: kv, Dim: dim, QStride: (q + 2*kv) * dim, OStride: q * dim, PageTokens: block, Window: window}
	}
	llama8B := shape(32, 8, 128, 64, 0)
	some := []cudnn.AttentionBucket{{Batch: 1, Rows: 4096, Keys: 32768}}
	for _, d := range cudatest.Devices {
		l, err := cudnn.Open(cudnn.Options{Properties: d.Properties()})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, sm_%d, cuDNN %s", d.Name, d.Capability/10, l.Version())
		for _, c := range []struct {
			name    string
			shape   cudnn.AttentionShape
			buckets []cudnn.AttentionBucket
		}{
			{"Llama-3.1-8B", llama8B, checkedBuckets()},
			{"Llama-3.1-8B, blocks of 16", shape(32, 8, 128, 16, 0), some},
			{"Llama-3.1-8B, blocks of 512", shape(32, 8, 128, 512, 0), some},
			{"Qwen2.5-0.5B", shape(14, 2, 64, 64, 0), some},
			{"Qwen2.5-32B", shape(40, 8, 128, 64, 0), some},
			{"Llama-3.3-70B", shape(64, 8, 128, 64, 0), some},
			{"Mistral-7B, window 4096", shape(32, 8, 128, 64, 4096), some},
		} {
			check(t, l, c.name, c.shape, c.buckets)
		}
		l.Close()
	}
}

func check(t *testing.T, l *cudnn.Library, name string, s cudnn.AttentionShape, buckets []cudnn.AttentionBucket) {
	t.Helper()
	began := time.Now()
	a, err := cudnn.NewAttention(l, cudnn.AttentionOptions{}, s, buckets[0])
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer a.Close()
	workspaceOf := int64(0)
	for _, b := range buckets {
		plan, err := a.Plan(b) // refuses another kernel than the first one's
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		workspaceOf = max(workspaceOf, plan.Workspace())
	}
	if workspaceOf > 32<<20 {
		t.Errorf("%s: a workspace of %d bytes, and 32 MiB are set aside", name, workspaceOf)
	}
	t.Logf("%-28s %2d plans, %.2f s each, workspace %d, %s", name, len(buckets), time.Since(began).Seconds()/float64(len(buckets)), workspaceOf, a.Kernel())
}
