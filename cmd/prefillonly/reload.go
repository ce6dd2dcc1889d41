package main

import (
	"os"
	"syscall"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/cmd/prefillonly/roles"
	"github.com/prefillonly/prefillonly/cmd/prefillonly/settings"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/modellist"
)

// reloadServer reads the configuration anew for serve, and tells its children of the models. It returns whether they
// are to read them: a mistake leaves all as it is. Given is the configuration as it was read at the start.
func reloadServer(s settings.Settings, given *config.Config, log *zap.Logger) bool {
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
	return true
}

// forwardHangups passes SIGHUP on until stop. From a terminal that is gone it is a wish to end, as it is to other programs.
func forwardHangups(reload <-chan os.Signal, signals chan<- os.Signal, stop <-chan struct{}) {
	attached := hasTerminal()
	for {
		select {
		case sig := <-reload:
			if attached && !hasTerminal() {
				sig = syscall.SIGTERM
			}
			select {
			case signals <- sig:
			case <-stop:
				return
			}
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
