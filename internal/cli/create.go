package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"signalbox/backend/llm"
	"signalbox/backend/models"
)

func createCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "create MODEL [-f MODELFILE]", Short: "Make a variant of a model: system text, template, parameters", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readInput(cmd, file)
			if err != nil {
				return fmt.Errorf("read the Modelfile: %w", err)
			}
			made, err := models.ParseModelfile(string(text))
			if err != nil {
				return err
			}
			if err := refusePath(made.From, filepath.Dir(file)); err != nil {
				return err
			}
			parameters := map[string]any{}
			for _, p := range made.Parameters {
				parameters[p.Name] = p.Value
			}
			c, err := connect()
			if err != nil {
				return err
			}
			_, err = c.follow(cmd.Context(), "POST", "/api/create", map[string]any{
				"model": args[0], "from": made.From, "system": made.System, "template": made.Template, "license": made.License,
				"parameters": parameters, "messages": made.Messages,
			}, newBars(cmd.ErrOrStderr()))
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "Modelfile", "the Modelfile; - is the standard input")
	return cmd
}

// refusePath says what to do instead when FROM names files.
func refusePath(from, beside string) error {
	if models.ValidName(from) {
		if _, err := os.Stat(filepath.Join(beside, from)); err != nil {
			return nil // a model's name
		}
	}
	path := from
	if !filepath.IsAbs(path) {
		path = filepath.Join(beside, path)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir() && models.ValidName(from):
		return nil // a folder that happens to have a model's name
	case err == nil && info.IsDir():
		return llm.Errorf(llm.CodeInvalid, "FROM names the folder %s", path).WithHint("add it with `signalbox import %s`, and write the name that it gets behind FROM", path)
	case err == nil && models.IsGGUF(path):
		return models.Builtin().RefuseGGUF(path)
	case err == nil && !models.ValidName(from):
		return llm.Errorf(llm.CodeUnsupported, "FROM names the file %s, and models are not made of single files here", path)
	case models.ValidName(from):
		return nil
	}
	return llm.Errorf(llm.CodeInvalid, "FROM %s is neither a model nor a file", from)
}
