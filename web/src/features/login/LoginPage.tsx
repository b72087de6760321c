/** Sign-in: the key, where to find it, and why the last one ended. */
import { useEffect, useRef, useState, type FormEvent } from 'react';
import { PasswordInput, Switch } from '@mantine/core';
import { keyMode } from '../../api/key';
import { Logo } from '../../app/Logo';
import { refusal, useSessionApi } from '../../app/session';
import { Button } from '../../ui/Button';
import { Mark } from '../../ui/Mark';
import './login.css';

export default function LoginPage({ reason }: { reason: string | null }) {
  const { signIn } = useSessionApi();
  const [key, setKey] = useState('');
  const [memory, setMemory] = useState(keyMode() === 'memory');
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string | null>(reason);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Sign in · Weir';
    field.current?.focus();
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!key || busy) return;
    setBusy(true);
    try {
      await signIn(key, memory ? 'memory' : 'tab');
    } catch (error) {
      setFault(refusal(error));
      setBusy(false);
      field.current?.select();
    }
  };
  return (
    <main className="login">
      <form className="card" onSubmit={submit} aria-labelledby="login-title">
        <h1 id="login-title"><Logo size={24} /> Weir <span className="quiet">{window.location.host}</span></h1>
        {fault && (
          <p className="login-fault" role="alert"><Mark state="err" label="" /> {fault}</p>
        )}
        <input className="sr" type="text" name="username" autoComplete="username" value={`weir@${window.location.host}`} readOnly tabIndex={-1} aria-hidden="true" />
        <PasswordInput
          ref={field} label="Admin key" name="password" autoComplete="current-password" value={key} onChange={(event) => setKey(event.target.value)}
          description="It is in admin.key of the data folder, or in WEIR_ADMIN_KEY. A viewer's key works too."
          inputWrapperOrder={['label', 'input', 'description', 'error']} visibilityToggleButtonProps={{ 'aria-label': 'Show the key' }}
        />
        <Switch size="xs" checked={memory} onChange={(event) => setMemory(event.currentTarget.checked)} label="Forget the key when the page is reloaded" />
        <Button look="main" type="submit" disabled={busy || key === ''}>{busy ? 'Signing in' : 'Sign in'}</Button>
      </form>
    </main>
  );
}
