/** The look of the editor, from the tokens. */
import { EditorView } from '@codemirror/view';
import { HighlightStyle } from '@codemirror/language';
import { tags } from '@lezer/highlight';

export const editorTheme = EditorView.theme({
  '&': { height: '100%', fontSize: '12px', backgroundColor: 'var(--surface)', color: 'var(--text)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-3)', border: 'none', borderRight: '1px solid var(--border)' },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--inset) 60%, transparent)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent', color: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--selected)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--selected)', outline: 'none' },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--border)', borderRadius: '6px' },
  '.cm-diagnostic': { borderLeft: '0', padding: '6px 10px', color: 'var(--err)' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--mark-err) 1px', textUnderlineOffset: '3px' },
  '.cm-lint-marker-error': { content: 'none', width: '9px', height: '9px', marginTop: '5px', borderRadius: '1.5px', backgroundColor: 'var(--mark-err)' },
  '.cm-foldGutter .cm-gutterElement': { color: 'var(--text-3)' },
  '.cm-panels': { backgroundColor: 'var(--inset)', color: 'var(--text)' },
  // The difference of two texts.
  '.cm-changedText, .cm-insertedLine .cm-changedText': { background: 'color-mix(in srgb, var(--mark-ok) 30%, transparent)' },
  '&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine, .cm-insertedLine': { backgroundColor: 'var(--ok-soft)' },
  '&.cm-merge-a .cm-changedLine, .cm-deletedChunk': { backgroundColor: 'var(--err-soft)' },
  '&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText': { background: 'color-mix(in srgb, var(--mark-err) 25%, transparent)' },
  '.cm-collapsedLines:before, .cm-collapsedLines:after': { content: 'none !important' },
  '.cm-collapsedLines': { background: 'var(--inset)', color: 'var(--text-2)' },
});

export const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--text)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--text-2)', fontWeight: '550' },
  { tag: [tags.comment, tags.punctuation, tags.separator, tags.bracket, tags.squareBracket, tags.brace], color: 'var(--text-3)' },
]);
