package ref

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// runParallel calls do(0..n-1) on as many goroutines as there are processors and returns when all calls
// have; the calls must write to different places.
func runParallel(n int, do func(i int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { // ends when the indices run out
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
