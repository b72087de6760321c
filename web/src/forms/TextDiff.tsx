/** Two texts with their difference marked line by line; equal stretches are folded. */
import { useEffect, useRef } from 'react';
import { EditorState } from '@codemirror/state';
import { EditorView, lineNumbers } from '@codemirror/view';
import { syntaxHighlighting } from '@codemirror/language';
import { unifiedMergeView } from '@codemirror/merge';
import { json } from '@codemirror/lang-json';
import { styleNonce } from '../app/nonce';
import { colours, editorTheme } from './editorTheme';

export default function TextDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return undefined;
    const view = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: after,
        extensions: [
          EditorView.cspNonce.of(styleNonce()), lineNumbers(), json(), syntaxHighlighting(colours), editorTheme, EditorView.lineWrapping,
          EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0', role: 'document' }),
          unifiedMergeView({ original: before, mergeControls: false, gutter: true, collapseUnchanged: { margin: 3, minSize: 6 } }),
        ],
      }),
    });
    return () => view.destroy();
  }, [before, after, label]);
  return <div className="w-text-diff" ref={host} />;
}
