package generate

import (
	"maps"
	"strings"

	"signalbox/backend/llm"
	"signalbox/internal/compiled"
	"signalbox/internal/openvino"
)

// compile compiles a model, or, with keep, takes what was kept of it. Trouble with what is kept costs time: it is compiled anew, in the end
// without keeping it.
func (r *Runner) compile(core *openvino.Core, model *openvino.Model, ref llm.ModelRef, properties openvino.Properties, keep bool, progress func(llm.Phase)) (*openvino.CompiledModel, error) {
	phase := "compiling for " + r.class()
	var folder compiled.Folder
	var err error
	if keep {
		folder, err = r.folder(core, ref, properties)
	}
	if err != nil {
		r.options.Log.Warn("compiled models are not kept", "model", ref.Name, "error", err)
	}
	if err != nil || folder.Dir == "" {
		progress(llm.Phase{Name: phase})
		return core.Compile(model, r.options.Device, properties)
	}
	switch {
	case folder.Ready:
		phase = "loading what was compiled for " + r.class()
	case folder.Again != "":
		phase += " again: " + folder.Again
	case r.class() == llm.NPU: // a minute, and nobody likes to see that coming each time
		phase += ", once only"
	}
	progress(llm.Phase{Name: phase})
	kept := maps.Clone(properties)
	kept["CACHE_DIR"] = folder.Dir
	c, err := core.Compile(model, r.options.Device, kept)
	if err == nil {
		if cached, _ := c.Property("LOADED_FROM_CACHE"); folder.Ready && cached == "NO" {
			folder.Ready = false // the runtime did not like it, and wrote another
		}
		if err := folder.Seal(); err != nil {
			r.options.Log.Warn("compiled models are not kept", "model", ref.Name, "error", err)
		}
		return c, nil
	}
	folder.Drop()
	progress(llm.Phase{Name: "compiling for " + r.class() + " again: what was kept of it did not load, or could not be kept"})
	return core.Compile(model, r.options.Device, properties)
}

// folder is where what is compiled of a model is kept; without a Dir it is not.
func (r *Runner) folder(core *openvino.Core, ref llm.ModelRef, properties openvino.Properties) (compiled.Folder, error) {
	if r.options.CacheDir == "" {
		return compiled.Folder{}, nil
	}
	release, _, _ := strings.Cut(core.Library().Version(), "-")
	return compiled.Open(r.options.CacheDir).Take(compiled.Key{
		Model: ref.Name, Digest: ref.Digest, Device: r.options.Device, Driver: r.options.Driver,
		Runtime: release, Properties: properties,
	})
}
