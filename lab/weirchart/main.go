// Renders the Helm chart with Helm's own library and checks the result against Kubernetes' own types, for tests.
//
//	weirchart [-json|-plain] [-release NAME] [-namespace NAME] [-exists KIND/NAME]... [-secret NAME:KEY=VALUE] CHART [VALUES...]
//
// It prints the rendered objects, each after a line `---`, or one line for each fault and ends with 1. The notes of the chart
// go to standard error. `-exists` names an
// object that is made by hand, `-secret` one that is in the cluster when the chart is installed again. With `-manifests` the
// arguments are files of plain manifests, which are checked in the same way.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

type list []string

func (values *list) String() string { return strings.Join(*values, " ") }

func (values *list) Set(value string) error {
	*values = append(*values, value)
	return nil
}

func main() {
	var exists list
	release := flag.String("release", "weir", "name of the release")
	namespace := flag.String("namespace", "gateways", "namespace of the release")
	secret := flag.String("secret", "", "NAME:KEY=VALUE, a Secret in the cluster")
	asJSON := flag.Bool("json", false, "print a JSON list")
	asPlain := flag.Bool("plain", false, "print plain manifests without the marks of Helm")
	manifests := flag.Bool("manifests", false, "check plain manifests")
	flag.Var(&exists, "exists", "KIND/NAME, an object that is made by hand")
	flag.Parse()
	// Helm says that it follows the symbolic links to rules and dashboards.
	log.SetOutput(io.Discard)
	var texts []string
	var faults []string
	if *manifests {
		texts, faults = read(flag.Args())
	} else {
		texts, faults = render(*release, *namespace, *secret, flag.Arg(0), flag.Args()[1:])
	}
	if len(faults) == 0 {
		faults = check(texts, exists)
	}
	if len(faults) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(faults, "\n"))
		os.Exit(1)
	}
	var err error
	switch {
	case *asJSON:
		err = printJSON(texts)
	case *asPlain:
		err = printPlain(texts)
	default:
		for _, text := range texts {
			fmt.Printf("---\n%s\n", text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Reads files of plain manifests.
func read(paths []string) (texts, faults []string) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, []string{err.Error()}
		}
		texts = append(texts, documents(string(content))...)
	}
	return texts, nil
}

// The documents of a rendered template or of a file, without empty ones.
func documents(text string) (found []string) {
	for _, document := range strings.Split("\n"+text, "\n---") {
		hasContent := false
		for _, line := range strings.Split(document, "\n") {
			line = strings.TrimSpace(line)
			hasContent = hasContent || line != "" && !strings.HasPrefix(line, "#")
		}
		if hasContent {
			found = append(found, strings.TrimSpace(document))
		}
	}
	return found
}

// Lints and renders the chart with the values of the files, later ones over earlier ones.
func render(release, namespace, secret, folder string, files []string) (texts, faults []string) {
	values := map[string]interface{}{}
	for _, file := range files {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, []string{err.Error()}
		}
		values = chartutil.MergeTables(more, values)
	}
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, []string{err.Error()}
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, []string{err.Error()}
	}
	rendered, err := engine.RenderWithClientProvider(loaded, all, cluster(namespace, secret))
	if err != nil {
		return nil, []string{err.Error()}
	}
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		for _, message := range lint.AllWithKubeVersion(folder, values, namespace, nil).Messages {
			if message.Severity >= support.WarningSev {
				faults = append(faults, "lint: "+message.Error())
			}
		}
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if strings.HasSuffix(name, "NOTES.txt") {
			if strings.TrimSpace(rendered[name]) == "" {
				faults = append(faults, "NOTES.txt is empty")
			}
			fmt.Fprint(os.Stderr, rendered[name])
			continue
		}
		for _, document := range documents(rendered[name]) {
			texts = append(texts, fmt.Sprintf("# Source: %s\n%s", filepath.ToSlash(name), document))
		}
	}
	return texts, faults
}
