package hub

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// parallel is how many files are fetched at a time, as by huggingface_hub.
const parallel = 8

// download fetches one model.
type download struct {
	client   *client
	cache    cache
	model    Model
	weights  bool
	progress progress
	commit   string
}

func newDownload(m Model, o Options) *download {
	return &download{
		client: newClient(o.Settings, m), cache: o.Settings.modelCache(m), model: m, weights: !o.Texts,
		progress: progress{report: o.Progress},
	}
}

// downloadFiles fetches what the commit, or without one the revision, needs and returns the snapshot's directory. The small files
// come first, as they say what the others are. Nothing is in the snapshot before all is here, and config.json appears
// last: whoever finds that finds a whole model.
func (d *download) downloadFiles(ctx context.Context, commit string) (dir string, err error) {
	defer d.client.close()
	revision := commit
	if revision == "" {
		revision = d.model.Revision
	}
	var l listing
	if d.commit, l, err = d.client.listFiles(ctx, revision); err != nil {
		return "", err
	}
	if err := l.checkFiles(d.weights); err != nil {
		return "", err
	}
	first, err := l.firstFiles()
	if err != nil {
		return "", err
	}
	if err := d.fetchFiles(ctx, first); err != nil {
		return "", err
	}
	read := func(name string) ([]byte, error) { return regular.ReadFile(d.cache.blobPath(l[name]), maxSmall) }
	rest, err := l.remainingFiles(read, d.weights)
	if err != nil {
		return "", err
	}
	modules, err := l.listModuleFiles(read)
	if err != nil {
		return "", err
	}
	d.progress.expectFiles(first, rest)
	if err := d.fetchFiles(ctx, rest); err != nil {
		return "", err
	}
	for _, f := range append(rest, first...) {
		if err := d.cache.linkBlob(d.commit, f); err != nil {
			return "", explainWriteError(d.cache.root, err)
		}
	}
	names := append(smallFiles[:len(smallFiles):len(smallFiles)], modules...)
	return d.cache.snapshotPath(d.commit), explainWriteError(d.cache.root, d.cache.recordCommit(d.model, d.commit, l, names))
}

// fetchFiles makes files blobs of the cache, several at a time.
func (d *download) fetchFiles(ctx context.Context, files []File) error {
	files, err := distinctFiles(files)
	if err != nil {
		return err
	}
	if err := d.cache.makeDirs(); err != nil {
		return explainWriteError(d.cache.root, err)
	}
	if err := d.checkDiskRoom(files); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan File)
	var workers sync.WaitGroup
	for range min(parallel, len(files)) {
		workers.Go(func() { // ends with queue
			for f := range queue {
				if err := d.fetchBlob(ctx, f); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, f := range files {
		if ctx.Err() != nil {
			break
		}
		queue <- f
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// distinctFiles are the files of different content.
func distinctFiles(files []File) (list []File, err error) {
	seen := map[string]bool{}
	for _, f := range files {
		if err := f.checkValid(); err != nil {
			return nil, err
		}
		if !seen[f.Digest] {
			list = append(list, f)
		}
		seen[f.Digest] = true
	}
	return list, nil
}

// checkDiskRoom refuses files that the disk has no room for.
func (d *download) checkDiskRoom(files []File) error {
	var need int64
	for _, f := range files {
		at := d.cache.blobPath(f)
		if isFile(at) {
			continue
		}
		need += f.Size
		if info, err := os.Lstat(at + ".incomplete"); err == nil {
			need -= min(info.Size(), f.Size)
		}
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(filepath.Join(d.cache.dir, "blobs"), &disk); err != nil {
		return nil //nolint:nilerr // a file system that does not tell
	}
	if free := int64(disk.Bavail) * int64(disk.Bsize); need > free {
		return spaceError(d.cache.root, need, free)
	}
	return nil
}

// progress adds up what comes.
type progress struct {
	report func(done, total int64) // nil for nobody

	mu          sync.Mutex
	done, total int64 // guarded by mu; total is 0 until it is known
}

// expectFiles sets how much there is to come, and what is already here of it.
func (p *progress) expectFiles(first, rest []File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, _ := distinctFiles(append(first[:len(first):len(first)], rest...))
	for _, f := range own {
		p.total += f.Size
	}
}

// addBytes takes in bytes that came, or were given up.
func (p *progress) addBytes(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.report != nil && p.total > 0 {
		p.report(p.done, p.total)
	}
}
