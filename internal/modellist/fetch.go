package modellist

import (
	"context"
	"os"

	"github.com/prefillonly/prefillonly/internal/hub"
)

// Fetch returns the directory of a model of the Hugging Face hub.
type Fetch func(m hub.Model) (dir string, err error)

// Cached takes what is in the local cache, and downloads nothing.
func Cached(m hub.Model) (string, error) {
	return findDir(context.Background(), m, hub.Options{Refusal: "download it with `prefillonly model download " + m.String() + "`, or give its directory"})
}

// Downloaded takes what is in the local cache, and downloads what that lacks until ctx ends; the weights, too, unless texts is
// set. Progress is told of a model's bytes.
func Downloaded(ctx context.Context, texts bool, progress func(model string) func(done, total int64)) Fetch {
	return func(m hub.Model) (string, error) {
		return findDir(ctx, m, hub.Options{Texts: texts, Progress: progress(m.String())})
	}
}

func findDir(ctx context.Context, m hub.Model, o hub.Options) (dir string, err error) {
	if o.Settings, err = hub.FromEnvironment(os.Getenv); err != nil {
		return "", err
	}
	return hub.Find(ctx, m, o)
}

// ofHub finds a model by its name in the hub, by which it is called, too.
func ofHub(word, revision string, fetch Fetch) (found, name string, err error) {
	m, err := hub.Parse(word, revision)
	if err != nil {
		return word, word, err
	}
	if found, err = fetch(m); err != nil {
		return word, m.ID, err
	}
	return found, m.ID, nil
}
