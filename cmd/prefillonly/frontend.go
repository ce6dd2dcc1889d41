package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/apikey"
	"github.com/prefillonly/prefillonly/engine/frontend"
	"github.com/prefillonly/prefillonly/engine/tokenizer"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/config"
	"github.com/prefillonly/prefillonly/internal/cors"
	"github.com/prefillonly/prefillonly/internal/httpserve"
	"github.com/prefillonly/prefillonly/internal/regular"
	"github.com/prefillonly/prefillonly/internal/supervise"
	"github.com/prefillonly/prefillonly/internal/telemetry"
)

// What the supervisor hands down to a frontend: the descriptor of the listening socket, and how many
// frontends share it.
const (
	listenerEnv  = config.ChildEnvPrefix + "LISTENER"
	frontendsEnv = config.ChildEnvPrefix + "FRONTENDS"
)

// frontendName is the name of the i-th frontend that the supervisor starts.
func frontendName(i int) string { return "frontend-" + strconv.Itoa(i) }

// newFrontendCommand makes `prefillonly frontend`.
func newFrontendCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "frontend [MODEL]",
		Short:   "Run an HTTP frontend alone",
		Example: "  prefillonly frontend --name web-1 --scheduler-endpoint tcp://10.0.0.1:7000 --curve-key-file f.key --curve-peers-file s.pub --model ./Qwen2.5-0.5B",
		Args:    cobra.MaximumNArgs(1),
	}
	name := command.Flags().String("name", defaultName("frontend"), "name among the peers of one scheduler, stable over restarts")
	return configured(command, config.Frontend, func(cfg *config.Config, log *zap.Logger) error {
		return runFrontend(cfg, *name, log)
	})
}

func runFrontend(cfg *config.Config, name string, log *zap.Logger) error {
	ctx := stopSignal(context.Background())
	debugging, err := telemetry.ServeDebug(cfg.DebugPort, debugFrontend, log)
	if err != nil {
		return err
	}
	defer debugging.Close()
	remove, err := prepareModel(cfg)
	if err != nil {
		return err
	}
	defer remove()
	keys, err := apiKeys(cfg)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	tok, err := tokenizer.Open(cfg.Model)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	chat, err := openTemplate(cfg, tok)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	listener, err := openListener(cfg)
	if err != nil {
		return err
	}
	peer, err := dial(cfg, wire.RoleFrontend, log)
	if err != nil {
		return err
	}
	defer peer.Close()
	socket, siblings := metricsSockets(cfg, name)
	f, err := frontend.New(frontend.Config{
		Name: name, Heartbeat: heartbeat, Models: cfg.ServedModelName, Keys: keys, Version: version,
		MaxBody: int64(cfg.MaxBody), MaxJobs: cfg.MaxOpenJobs, MaxLogprobs: cfg.MaxLogprobs, AccessLog: cfg.AccessLog, DefaultMaxTokens: cfg.DefaultMaxTokens,
		HTTP: httpserve.Config{
			MaxConnections: cfg.MaxConnections, MaxPerAddress: cfg.MaxConnectionsPerAddress,
			DrainTimeout: cfg.DrainTimeout, DrainGrace: cfg.DrainGrace,
		},
		Socket: socket, Siblings: siblings, Pulse: pulse, DevMode: cfg.DevMode,
		CORS: cors.Config{Origins: cfg.AllowedOrigins, Methods: cfg.AllowedMethods, Headers: cfg.AllowedHeaders, Credentials: cfg.AllowCredentials},
	}, tok, chat, peer, log)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	return f.Serve(ctx, listener)
}

// metricsSockets are where frontends on one port tell each other their metrics: this one's and all; none
// for one alone.
func metricsSockets(cfg *config.Config, name string) (own string, all []string) {
	n, _ := strconv.Atoi(os.Getenv(frontendsEnv)) // not there for one that serve has not started
	if n < 2 {
		return "", nil
	}
	for i := range n {
		all = append(all, filepath.Join(cfg.RuntimeDir, frontendName(i)+".sock"))
	}
	return filepath.Join(cfg.RuntimeDir, name+".sock"), all
}

// pulse tells the supervisor how a frontend is.
func pulse(healthy, ready bool) {
	switch {
	case ready && healthy:
		supervise.Say(supervise.Ready)
	case healthy:
		supervise.Say(supervise.Healthy)
	default:
		supervise.Say(supervise.Alive)
	}
}

// openListener takes the supervisor's listening socket, or opens one.
func openListener(cfg *config.Config) (net.Listener, error) {
	if fd, err := strconv.Atoi(os.Getenv(listenerEnv)); err == nil {
		file := os.NewFile(uintptr(fd), "listener")
		defer file.Close()
		return net.FileListener(file)
	}
	return net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
}

// apiKeys joins the keys of the environment, the YAML file and --api-key-file.
func apiKeys(cfg *config.Config) (*apikey.Ring, error) {
	entries := cfg.APIKey
	if cfg.APIKeyFile != "" {
		text, err := os.ReadFile(cfg.APIKeyFile)
		if err != nil {
			return nil, fmt.Errorf("api-key-file: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) != "" {
				entries = append(entries, line)
			}
		}
		if len(entries) == 0 {
			return nil, fmt.Errorf("api-key-file: %s holds no key", cfg.APIKeyFile)
		}
	}
	return apikey.NewRing(entries, cfg.CacheIsolation)
}

// chatTemplate adapts the tokenizer's templates to the frontend.
type chatTemplate struct {
	*tokenizer.Tokenizer
	override string // used in place of the checkpoint's template; may be empty
}

func openTemplate(cfg *config.Config, tok *tokenizer.Tokenizer) (chatTemplate, error) {
	t := chatTemplate{Tokenizer: tok}
	if cfg.ChatTemplate != "" {
		text, err := regular.ReadFile(cfg.ChatTemplate, tokenizer.MaxTemplate)
		if err != nil {
			return t, fmt.Errorf("chat-template: %w", err)
		}
		t.override = string(text)
	}
	return t, nil
}

func (t chatTemplate) RenderChat(messages []byte, o frontend.ChatOptions) (string, error) {
	return t.Tokenizer.RenderChat(messages, tokenizer.ChatOptions{
		AddGenerationPrompt: o.AddGenerationPrompt, ContinueFinalMessage: o.ContinueFinalMessage, Template: t.override, Variables: o.Variables,
	})
}

// TokenizerInfo is the tokenizer's configuration with the template in use.
func (t chatTemplate) TokenizerInfo() map[string]json.RawMessage {
	info := t.Tokenizer.Info()
	if t.override != "" {
		info["chat_template"], _ = json.Marshal(t.override) // a string has a JSON form
	}
	return info
}
