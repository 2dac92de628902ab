import { Button } from '@mantine/core';
import { type RefObject, useState } from 'react';
import { announce } from './announce.ts';
import { type CopyResult, copy, copyMessages } from './copy.ts';
import { Icon } from './icons.tsx';

interface Props {
  readonly text: string | (() => string);
  readonly field?: RefObject<HTMLInputElement | HTMLTextAreaElement | null>;
  readonly label?: string;
  readonly done?: (copied: CopyResult) => void;
}

export function CopyButton({ text, field, label = 'Copy', done }: Props) {
  const [copied, setCopied] = useState<CopyResult>();
  const press = async () => {
    const outcome = await copy(typeof text === 'string' ? text : text(), field?.current ?? null);
    setCopied(outcome);
    announce(copyMessages[outcome]);
    done?.(outcome);
  };
  const good = copied === 'checked' || copied === 'copied';
  return (
    <Button
      variant="default"
      onClick={press}
      leftSection={<Icon name={good ? 'check' : 'copy'} size={14} />}
      title={copied && copyMessages[copied]}
    >
      {good ? 'Copied' : copied === 'failed' ? 'Copy failed' : label}
    </Button>
  );
}
