// Package hub brings models from a Hugging Face hub into the local cache that huggingface_hub shares, and finds those that
// are there: what it downloads huggingface_hub finds without the network, and the other way round.
//
// What to fetch, where it lies in the cache and whether it is what was promised are decided by functions of their
// arguments (plan.go, digest.go, names.go, failure.go); HTTP is in client.go, files and locks in cache.go and blob.go.
package hub

import (
	"context"
	"errors"
	"fmt"
)

// Options say how a model is looked for.
type Options struct {
	Settings Settings
	// Refusal says why nothing may be downloaded, and what to do instead; empty where that may be.
	Refusal string
	// Texts leaves the weights out, for processes that only read and write text.
	Texts bool
	// Progress hears how many bytes of how many are here, from one goroutine at a time; nil where nobody wants to.
	Progress func(done, total int64)
}

// Find returns the directory of a model's files in the local cache, and downloads there what it lacks. What is in the
// cache is used as it is: whether the hub has a newer revision by now is asked by Download alone.
func Find(ctx context.Context, m Model, o Options) (dir string, err error) {
	c := o.Settings.modelCache(m)
	commit, err := c.readCommit(m.Revision)
	if err != nil {
		return "", fmt.Errorf("model %q: %w", m, err)
	}
	found := c.inspectCommit(commit, !o.Texts)
	if found.complete && found.known {
		return c.snapshotPath(commit), nil
	}
	refusal := o.Refusal
	if o.Settings.Offline {
		refusal = "HF_HUB_OFFLINE forbids to download it; unset that, or copy the cache of a host that has it"
	}
	if refusal != "" {
		if found.complete {
			return c.snapshotPath(commit), nil
		}
		return "", fmt.Errorf("model %q %s: %s", m, c.describeMissing(commit, found), refusal)
	}
	if !found.complete {
		commit = "" // what is there may be old
	}
	dir, err = fetchModel(ctx, m, commit, o)
	var unlisted *listingError
	if found.complete && errors.As(err, &unlisted) && ctx.Err() == nil {
		return c.snapshotPath(commit), nil // whether there is more to it could not be learnt
	}
	return dir, err
}

// Download brings the model's files as the hub has them now into the local cache, and returns their directory.
func Download(ctx context.Context, m Model, o Options) (dir string, err error) {
	if o.Settings.Offline {
		return "", fmt.Errorf("model %q: HF_HUB_OFFLINE forbids downloads; unset it", m)
	}
	return fetchModel(ctx, m, "", o)
}

// errEnded wraps what ended a download.
var errEnded = fmt.Errorf("download stopped; the next start resumes it (%w)", context.Canceled)

// IsPassing says that the same attempt may succeed later.
func IsPassing(err error) bool { return isTransient(err) }

// fetchModel fetches a model at a commit, or where none is given at the one that its revision means now.
func fetchModel(ctx context.Context, m Model, commit string, o Options) (string, error) {
	dir, err := newDownload(m, o).downloadFiles(ctx, commit)
	if err != nil {
		if ctx.Err() != nil {
			err = errEnded
		}
		return "", fmt.Errorf("model %q: %w", m, err)
	}
	return dir, nil
}
