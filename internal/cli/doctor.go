package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"signalbox/backend"
	"signalbox/backend/llm"
	"signalbox/backend/models"
	"signalbox/backend/server"
	"signalbox/internal/config"
	"signalbox/internal/dirs"
	"signalbox/internal/disk"
	"signalbox/internal/doctor"
	"signalbox/internal/generate"
	natives "signalbox/internal/runtime"
)

func (p Program) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check runtime, disk, devices, drivers, permissions, models and port", Args: cobra.NoArgs,
		Long: "Look at everything that Signalbox needs and say in one sentence how it stands, with the command that helps.\n" +
			"The exit code is 1 when something needs doing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := p.examine(cmd.Context())
			for _, f := range findings {
				mark := "ok  "
				if !f.OK {
					mark = "FAIL"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %-8s %s\n", mark, f.What, printable(f.Says))
				if f.Do != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "               -> %s\n", printable(f.Do))
				}
			}
			for _, f := range findings {
				if !f.OK {
					return exitError{1}
				}
			}
			return nil
		},
	}
}

// examine looks at one thing after the other; what cannot be looked at is a finding too.
func (p Program) examine(ctx context.Context) []doctor.Finding {
	d, err := dirs.Find()
	if err != nil {
		return []doctor.Finding{{What: "folders", Says: err.Error()}}
	}
	settings, warning := config.Load(d.Settings())
	findings := []doctor.Finding{settingsFile(d.Settings(), warning)}

	own := cmp.Or(settings.ModelsDir, d.Models())
	findings = append(findings, space(d.Data, own)...)

	found, err := natives.Find(settings.RuntimeDir, dirs.Beside(), d.Data)
	findings = append(findings, sentence("runtime", err, "OpenVINO %s in %s.", found.Version, found.Dir))
	m := machine()
	findings = append(findings, doctor.NPU(m)...)
	findings = append(findings, doctor.GPU(m)...)
	if err == nil {
		findings = append(findings, p.devices(ctx)...)
	}
	findings = append(findings, notPaged(generate.ListNotPaged(d.Compiled()))...)
	findings = append(findings, library(own, dirs.Beside("models"))...)
	return append(findings, port(ctx, settings))
}

// settingsFile tells where the settings are, and what is wrong with them.
func settingsFile(path, warning string) doctor.Finding {
	says := path + " is in order."
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		says = "All settings have their defaults: there is no " + path + " yet."
	}
	return doctor.Finding{What: "settings", OK: warning == "", Says: cmp.Or(warning, says)}
}

// devices asks the running Signalbox, or starts an engine to look.
func (p Program) devices(ctx context.Context) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, stop, err := p.connectOrStart(ctx, io.Discard)
	if err != nil {
		return []doctor.Finding{{What: "devices", Says: err.Error()}}
	}
	defer stop()
	var status server.Status
	for len(status.Devices) == 0 {
		if err := c.get(ctx, "GET", "/ui/status", nil, &status); err != nil {
			return []doctor.Finding{{What: "devices", Says: err.Error(), Do: "look into the log: " + logFolder()}}
		}
		if status.Runtime.Error != "" {
			return []doctor.Finding{{What: "devices", Says: status.Runtime.Error}}
		}
		select {
		case <-ctx.Done():
			return []doctor.Finding{{What: "devices", Says: "The engine found no device within a minute.", Do: "look into the log: " + logFolder()}}
		case <-time.After(100 * time.Millisecond):
		}
	}
	var findings []doctor.Finding
	for _, device := range status.Devices {
		findings = append(findings, inEngine(device))
	}
	var kept server.Compiled
	if err := c.get(ctx, "GET", "/ui/compiled", nil, &kept); err != nil {
		return append(findings, doctor.Finding{What: "compiled", Says: err.Error()})
	}
	return append(findings, compiledModels(kept))
}

// inEngine tells how the engine sees a device.
func inEngine(d server.DeviceStatus) doctor.Finding {
	verb := "uses"
	if d.State == "unavailable" {
		verb = "cannot use"
	}
	says := fmt.Sprintf("The engine %s %s: %s. %s", verb, d.Label, d.Name, d.Note)
	return doctor.Finding{What: d.Class, OK: d.Note == "", Says: strings.TrimSpace(says)}
}

// compiledModels tells what the compile caches take, and what must be compiled again.
func compiledModels(kept server.Compiled) doctor.Finding {
	f := doctor.Finding{What: "compiled", OK: true, Says: "Nothing is kept of compiled models yet: the first load of each takes longer."}
	if len(kept.Models) > 0 {
		f.Says = fmt.Sprintf("%s are kept of compiled models, %s at most.", size(kept.Bytes), size(kept.Limit))
	}
	for _, m := range kept.Models {
		if m.Again != "" {
			f.Says += fmt.Sprintf(" %s is compiled again for %s at its next load: %s.", m.Model, m.Label, m.Again)
		}
	}
	return f
}

// notPaged tells which models run slower than they could, since their process ended while they were loaded.
func notPaged(list []generate.NotPaged) (findings []doctor.Finding) {
	command := "rm '%s'"
	if runtime.GOOS == "windows" {
		command = `del "%s"`
	}
	for _, m := range list {
		findings = append(findings, doctor.Finding{
			What: "models", OK: true, Do: fmt.Sprintf(command+"   (to try it again)", m.File),
			Says: m.Model + " is loaded without paged attention, because loads with it ended the engine process twice: " +
				"its long prompts and second turns take longer.",
		})
	}
	return findings
}

func library(folders ...string) []doctor.Finding {
	list, err := models.Open(folders...).List()
	if err != nil {
		return []doctor.Finding{sentence("models", err, "")}
	}
	if len(list) == 0 {
		return []doctor.Finding{{What: "models", Says: "There is no model in " + folders[0] + ".",
			Do: "signalbox pull qwen3:8b   (`signalbox search` finds others)"}}
	}
	var findings []doctor.Finding
	usable := 0
	for _, m := range list {
		if m.Damaged != "" {
			findings = append(findings, doctor.Finding{What: "models", Says: fmt.Sprintf("%s is damaged: %s", m.Name, m.Damaged), Do: mend(m)})
			continue
		}
		usable++
	}
	return append(findings, doctor.Finding{What: "models", OK: usable > 0, Says: fmt.Sprintf("%d can be used.", usable)})
}

// mend is what helps a damaged model: files of which is known where they came from can be fetched again.
func mend(m models.Model) string {
	switch {
	case m.ReadOnly:
		return "install Signalbox again: the model came with it"
	case m.Source != "":
		return "signalbox verify --repair " + m.Name
	}
	return "signalbox rm " + m.Name
}

// tooFull is how little room hardly holds the journal and the log of a day.
const tooFull = 64 << 20

// space tells how much room the disks have that Signalbox writes to, each once.
func space(folders ...string) (findings []doctor.Finding) {
	seen, tried := map[string]bool{}, map[string]bool{}
	for _, folder := range folders {
		there := folder
		for _, err := os.Stat(there); errors.Is(err, fs.ErrNotExist) && there != filepath.Dir(there); _, err = os.Stat(there) {
			there = filepath.Dir(there) // it is made when it is needed
		}
		if tried[there] {
			continue
		}
		tried[there] = true
		if probe, err := os.MkdirTemp(there, ".signalbox-*"); err == nil {
			_ = os.Remove(probe)
		} else if !disk.Full(err) {
			findings = append(findings, doctor.Finding{
				What: "disk", Says: fmt.Sprintf("Nothing can be written into %s: %v.", there, bare(err)),
				Do: "change who may write there, or set SIGNALBOX_HOME to another folder",
			})
			continue
		}
		free, total, err := models.Space(there)
		if err != nil {
			findings = append(findings, doctor.Finding{What: "disk", Says: fmt.Sprintf("The disk of %s cannot be looked at: %v.", folder, err)})
			continue
		}
		id := volume(there)
		if seen[id] {
			continue
		}
		seen[id] = true
		f := doctor.Finding{What: "disk", OK: free >= tooFull}
		says := fmt.Sprintf("%s of %s are free for %s", humanize.Bytes(uint64(free)), humanize.Bytes(uint64(total)), folder)
		switch {
		case !f.OK:
			f.Says, f.Do = says+": too little to keep settings, records and chats.", "free some space on this disk"
		case free < models.Reserve:
			f.Says = says + ": too little to fetch a model."
		default:
			f.Says = says + "."
		}
		findings = append(findings, f)
	}
	return findings
}

// bare is an error without the name of a file that was only tried.
func bare(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// port asks the running Signalbox about its server, or whether the port could be had.
func port(ctx context.Context, settings config.Settings) doctor.Finding {
	if c, err := connect(); err == nil {
		var status server.Status
		if err := c.get(ctx, "GET", "/ui/status", nil, &status); err != nil {
			return sentence("port", err, "")
		}
		switch status.Server.State {
		case "running":
			return doctor.Finding{What: "port", OK: true, Says: "Signalbox runs and answers on " + status.Server.URL + "."}
		case "failed":
			return doctor.Finding{What: "port", Says: status.Server.Error}
		}
		return doctor.Finding{What: "port", OK: true, Says: "Signalbox runs; its server is stopped.", Do: "start it from the tray or the window"}
	}
	address := settings.Listen(os.Getenv)
	return sentence("port", backend.PortFree(address.Port), "Port %d is free.", address.Port)
}

func sentence(what string, err error, format string, args ...any) doctor.Finding {
	if err == nil {
		return doctor.Finding{What: what, OK: true, Says: fmt.Sprintf(format, args...)}
	}
	f := doctor.Finding{What: what, Says: err.Error()}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		f.Says, f.Do = e.Message+".", e.Hint
	}
	return f
}

func machine() doctor.Machine {
	if runtime.GOOS != "linux" {
		return doctor.Machine{}
	}
	m := doctor.Machine{Root: os.DirFS("/"), User: "$USER", Open: func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}}
	if me, err := user.Current(); err == nil {
		m.User = me.Username
	}
	return m
}

func logFolder() string {
	d, err := dirs.Find()
	if err != nil {
		return err.Error()
	}
	return d.Logs()
}
