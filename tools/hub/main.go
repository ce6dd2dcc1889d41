// Command hub serves directories as repositories of a Hugging Face hub, for tests of its clients: hub
// org/name=DIRECTORY... It says where it listens. Files of a MiB and more come from another port, as from the hub's own stores.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prefillonly/prefillonly/internal/hub/hubtest"
)

func main() {
	pause := flag.Duration("pause", 0, "between 64 KiB of a large file")
	token := flag.String("token", "", "that may read the repositories; default: all may")
	flag.Parse()
	repos := map[string]*hubtest.Repo{}
	for _, arg := range flag.Args() {
		name, dir, _ := strings.Cut(arg, "=")
		repo, err := readRepo(dir)
		if err != nil {
			log.Fatal(err)
		}
		repo.Token = *token
		repos[name] = repo
	}
	server := hubtest.New(repos)
	defer server.Close()
	server.Pause = *pause
	fmt.Println(server.Hub.URL)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
}

// readRepo makes a repository of a directory.
func readRepo(dir string) (*hubtest.Repo, error) {
	repo := &hubtest.Repo{Files: map[string][]byte{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		repo.Files[name] = content
		if len(content) >= 1<<20 {
			repo.Large = append(repo.Large, name)
		}
		return err
	})
	return repo, err
}
