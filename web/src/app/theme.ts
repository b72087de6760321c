/** Mantine in the dashboard's tokens: its variables point to the variables of the token file. */
import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from '@mantine/core';
import { fonts } from '../tokens/tokens';

const accent = Array.from({ length: 10 }, () => 'var(--accent)') as unknown as MantineColorsTuple;

export const theme = createTheme({
  fontFamily: fonts.sans,
  fontFamilyMonospace: fonts.mono,
  primaryColor: 'accent',
  colors: { accent },
  autoContrast: false,
  defaultRadius: 6,
  focusRing: 'auto',
  respectReducedMotion: true,
  cursorType: 'pointer',
  fontSizes: { xs: '12px', sm: '13px', md: '13px', lg: '15px', xl: '20px' },
  lineHeights: { xs: '16px', sm: '20px', md: '20px', lg: '20px', xl: '28px' },
  spacing: { xs: '4px', sm: '8px', md: '12px', lg: '16px', xl: '24px' },
  radius: { xs: '4px', sm: '6px', md: '6px', lg: '8px', xl: '8px' },
  components: { Modal: { defaultProps: { overlayProps: { backgroundOpacity: 0.35 } } } },
  breakpoints: { xs: '30em', sm: '45em', md: '68.75em', lg: '80em', xl: '90em' },
});

export const variables: CSSVariablesResolver = () => {
  const shared = {
    '--mantine-color-body': 'var(--page)',
    '--mantine-color-text': 'var(--text)',
    '--mantine-color-dimmed': 'var(--text-3)',
    '--mantine-color-error': 'var(--err)',
    '--mantine-color-placeholder': 'var(--text-3)',
    '--mantine-color-anchor': 'var(--accent)',
    '--mantine-color-default': 'var(--surface)',
    '--mantine-color-default-hover': 'var(--inset)',
    '--mantine-color-default-color': 'var(--text)',
    '--mantine-color-default-border': 'var(--border)',
    '--mantine-color-disabled': 'var(--inset)',
    '--mantine-color-disabled-color': 'var(--text-3)',
    '--mantine-color-disabled-border': 'var(--border)',
    '--mantine-primary-color-filled': 'var(--accent)',
    '--mantine-primary-color-filled-hover': 'var(--accent)',
    '--mantine-primary-color-light': 'var(--selected)',
    '--mantine-primary-color-light-hover': 'var(--selected)',
    '--mantine-primary-color-light-color': 'var(--accent)',
    '--mantine-primary-color-contrast': 'var(--on-accent)',
    '--mantine-color-accent-filled': 'var(--accent)',
    '--mantine-color-accent-filled-hover': 'var(--accent)',
    '--mantine-color-accent-light': 'var(--selected)',
    '--mantine-color-accent-light-hover': 'var(--selected)',
    '--mantine-color-accent-light-color': 'var(--accent)',
    '--mantine-color-accent-outline': 'var(--accent)',
    '--mantine-color-white': 'var(--on-accent)',
    '--input-bd': 'var(--field)',
  };
  return { variables: {}, light: shared, dark: shared };
};
