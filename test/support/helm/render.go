// Renders a Helm chart like `helm template` does, with the packages that Helm is made of: text/template and sprig.
// Usage: render CHART VALUES, where VALUES is a JSON file that overrides values.yaml.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

type values = map[string]interface{}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func readYaml(path string) values {
	text, err := os.ReadFile(path)
	check(err)
	parsed := values{}
	check(yaml.Unmarshal(text, &parsed))
	return parsed
}

func merge(base, override values) values {
	for name, value := range override {
		inner, isMap := value.(values)
		known, wasMap := base[name].(values)
		if isMap && wasMap {
			base[name] = merge(known, inner)
		} else {
			base[name] = value
		}
	}
	return base
}

type files struct{ folder string }

func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.folder, name))
	check(err)
	return string(text)
}

// Helm passes the fields of Chart.yaml with upper-case names.
func chartFields(parsed values) values {
	fields := values{}
	for name, value := range parsed {
		fields[strings.ToUpper(name[:1])+name[1:]] = value
	}
	return fields
}

func main() {
	folder := os.Args[1]
	text, err := os.ReadFile(os.Args[2])
	check(err)
	override := values{}
	check(json.Unmarshal(text, &override))
	data := values{
		"Values":  merge(readYaml(filepath.Join(folder, "values.yaml")), override),
		"Chart":   chartFields(readYaml(filepath.Join(folder, "Chart.yaml"))),
		"Release": values{"Name": "vault", "Namespace": "default", "Service": "Helm", "IsInstall": true, "IsUpgrade": false},
		"Files":   files{folder},
	}
	root := template.New("chart").Option("missingkey=error").Funcs(sprig.TxtFuncMap())
	root.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			out := strings.Builder{}
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(value interface{}) string {
			out, err := yaml.Marshal(value)
			check(err)
			return strings.TrimSuffix(string(out), "\n")
		},
	})
	paths, err := filepath.Glob(filepath.Join(folder, "templates/*"))
	check(err)
	sort.Strings(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		_, err = root.New(filepath.Base(path)).Parse(string(text))
		check(err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") || !strings.HasSuffix(name, ".yaml") {
			continue
		}
		fmt.Println("---")
		check(root.ExecuteTemplate(os.Stdout, name, data))
		fmt.Println()
	}
}
