package main

import (
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// reloadServer reads the configuration anew for serve, and tells its children of the models. It returns whether they
// are to read them: a mistake leaves all as it is. Given is the configuration as it was read at the start.
func reloadServer(s settings.Settings, given *config.Config, merged *merges, log *zap.Logger) bool {
	next, failed, changed, err := s.Reread(given)
	if err == nil {
		err = roles.NameModelGPUs(next, log)
	}
	if err == nil {
		err = modellist.CheckHosted(next)
	}
	if err == nil {
		err = modellist.Write(next)
	}
	if err != nil {
		log.Error("the configuration is left as it is", zap.Error(err))
		return false
	}
	for _, name := range changed {
		log.Warn("this parameter changes only when the server is started anew", zap.String("parameter", name))
	}
	modellist.Report(next, failed, log)
	log.Info("models read anew", zap.String("before", modellist.Names(s.Config)), zap.String("now", modellist.Names(next)))
	s.Models = next.Models
	merged.models.Store(&next.Models)
	return true
}

// merges are the models that a server has, of which some may be of merges.
type merges struct {
	models atomic.Pointer[[]config.Model]

	seen          *[]config.Model // for which superseded has last looked
	current, told []string        // generations then, and when it last said so
}

// superseded says that another generation has become current of a merge than is served, once of each: by a merge that goes on, one that is reverted, or
// a network that has drifted.
func (m *merges) superseded() bool {
	models := m.models.Load()
	current := modellist.CurrentGenerations(*models)
	if models == m.seen && slices.Equal(current, m.current) {
		return false
	}
	m.seen, m.current = models, current
	if slices.Equal(current, m.told) || len(modellist.Superseding(*models)) == 0 {
		return false
	}
	m.told = current
	return true
}

// mergesPace is how often the directories of merges are looked at.
const mergesPace = time.Second

// forwardHangups passes SIGHUP on until stop, and makes one where a merge has another generation. From a terminal that is gone it is a wish to end, as it is
// to other programs.
func forwardHangups(reload <-chan os.Signal, merged *merges, signals chan<- os.Signal, stop <-chan struct{}) {
	attached := hasTerminal()
	look := time.NewTicker(mergesPace)
	defer look.Stop()
	for {
		var sig os.Signal
		select {
		case sig = <-reload:
			if attached && !hasTerminal() {
				sig = syscall.SIGTERM
			}
		case <-look.C:
			if !merged.superseded() {
				continue
			}
			sig = syscall.SIGHUP
		case <-stop:
			return
		}
		select {
		case signals <- sig:
		case <-stop:
			return
		}
	}
}

// hasTerminal says that this process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	return f.Close() == nil
}
