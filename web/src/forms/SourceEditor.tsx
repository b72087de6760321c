/** The source of a document, JSON or YAML, in an editor with the faults at their lines. */
import { useEffect, useRef, useState } from 'react';
import { Compartment, EditorState } from '@codemirror/state';
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, foldGutter, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { searchKeymap } from '@codemirror/search';
import { styleNonce } from '../app/nonce';
import { colours, editorTheme } from './editorTheme';
import { equal, type Json } from './json';
import { smallestEdit } from './jsonText';
import { pointerAt, rangeOf, type Syntax } from './locate';
import { jsonTools, type SyntaxTools } from './syntax';
import { keepTyped, readTyped, useTyped } from './typed';
import type { Fault } from './validator';

export interface SourceEditorProps {
  document: Json;
  syntax: Syntax;
  faults: readonly Fault[];
  readOnly: boolean;
  /** Called with the document that the text says; not called while the text does not parse. */
  onChange?: (next: Json) => void;
  /** Where a text that does not parse is kept, one place for each syntax; it is there again when the editor is. */
  place: string;
  /** Called with the pointer at the cursor. */
  onPointer?: (pointer: string) => void;
  /** Scrolls to a pointer when it changes. */
  reveal?: { pointer: string; at: number } | null;
  label: string;
}

export default function SourceEditor({ document, syntax, faults, readOnly, onChange, onPointer, reveal, label, place }: SourceEditorProps) {
  const [yamlTools, setYamlTools] = useState<SyntaxTools | null>(null);
  useEffect(() => {
    if (syntax === 'yaml' && !yamlTools) void import('./yamlText').then((module) => setYamlTools(module.yamlTools));
  }, [syntax, yamlTools]);
  const tools = syntax === 'yaml' && yamlTools ? yamlTools : jsonTools;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const typed = useTyped(place);
  const calls = useRef({ onChange, onPointer, tools, document, place });
  calls.current = { onChange, onPointer, tools, document, place };
  const language = useRef(new Compartment());
  const locked = useRef(new Compartment());
  const ownEdit = useRef(false);
  const lastTools = useRef(tools);

  useEffect(() => {
    if (!host.current) return undefined;
    const listener = EditorView.updateListener.of((update) => {
      const { onChange: change, onPointer: move, tools: now, document: current, place: kept } = calls.current;
      if (update.docChanged && !ownEdit.current) {
        const text = update.state.doc.toString();
        const read = now.parse(text);
        keepTyped(kept, read.error === undefined ? null : { text, error: read.error, at: read.at });
        if (read.document !== undefined && !equal(read.document, current)) change?.(read.document);
      }
      if (update.selectionSet && move) move(pointerAt(now.locate(update.state.doc.toString()), update.state.selection.main.head));
    });
    const made = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: readTyped(calls.current.place)?.text ?? calls.current.tools.render(calls.current.document),
        extensions: [
          EditorView.cspNonce.of(styleNonce()),
          lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(),
          highlightActiveLine(), highlightActiveLineGutter(), syntaxHighlighting(colours), editorTheme, EditorView.lineWrapping,
          // Tab indents only after Escape was not pressed last; CodeMirror's own rule, so that the keyboard can leave.
          keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap, indentWithTab]),
          language.current.of(calls.current.tools.language()),
          locked.current.of([EditorState.readOnly.of(false)]),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          listener,
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, [label]);

  useEffect(() => {
    view.current?.dispatch({ effects: locked.current.reconfigure([EditorState.readOnly.of(readOnly)]) });
  }, [readOnly]);

  // A document that the form changed reaches the text by the smallest edit, so that the cursor keeps its place. A text
  // that does not parse waits until it is mended or dropped.
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const text = editor.state.doc.toString();
    if (typed?.text === text) return;
    const read = tools.parse(text);
    const turned = lastTools.current !== tools;
    lastTools.current = tools;
    if (turned) editor.dispatch({ effects: language.current.reconfigure(tools.language()) });
    else if (read.document !== undefined && equal(read.document, document)) return;
    const edit = smallestEdit(text, tools.render(document));
    if (!edit) return;
    ownEdit.current = true;
    editor.dispatch({ changes: edit });
    ownEdit.current = false;
  }, [document, tools, typed]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const text = editor.state.doc.toString();
    const places = tools.locate(text);
    const found: Diagnostic[] = faults.map((fault) => {
      const range = rangeOf(places, fault.pointer) ?? { from: 0, to: 0 };
      const end = Math.min(range.to, text.indexOf('\n', range.from) < 0 ? text.length : text.indexOf('\n', range.from));
      return { from: range.from, to: Math.max(range.from, end), severity: 'error', message: `${fault.pointer}: ${fault.reason}` };
    });
    if (typed) found.push({ from: Math.min(typed.at, text.length), to: Math.min(typed.at + 1, text.length), severity: 'error', message: typed.error });
    editor.dispatch(setDiagnostics(editor.state, found));
  }, [faults, tools, typed, document]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || !reveal) return;
    const range = rangeOf(tools.locate(editor.state.doc.toString()), reveal.pointer);
    if (range) editor.dispatch({ selection: { anchor: range.from }, effects: EditorView.scrollIntoView(range.from, { y: 'center' }) });
    // Only a new request scrolls; typing does not.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [reveal]);

  return (
    <div className="w-source">
      <div className="w-source-host" ref={host} />
      {typed ? <p className="w-source-mistake" role="status"><span aria-hidden>■</span> {typed.error}</p> : null}
    </div>
  );
}
